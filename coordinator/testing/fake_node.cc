#include "coordinator/testing/fake_node.h"

#include "absl/strings/str_cat.h"
#include "coordinator/testing/fake_ranks.h"
#include "rpc/channel.h"

namespace evenstep::coordinator::testing {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(300);

// Calls `body` for each rank of the share.
template <typename Body>
void ForRanks(const v1::Assignment& assignment, Body body) {
  for (int i = 0; i < assignment.num_ranks(); ++i) {
    body(assignment.first_rank() + i);
  }
}

}  // namespace

FakeNode::FakeNode(const std::string& address, const std::string& name,
                   int slots)
    : FakeNode(address, Hello(name, "incarnation", slots), nullptr) {}

FakeNode::FakeNode(const std::string& address, const v1::AgentMessage& hello,
                   Outgoing outgoing)
    : stub_(v1::AgentService::NewStub(rpc::MakeChannel(address))),
      stream_(Stream::Create()),
      outgoing_(std::move(outgoing)) {
  stream_->Start(
      {.on_message = [this](const v1::CoordinatorMessage& m) { On(m); },
       .on_drained = nullptr,
       .on_done = [this](const absl::Status&) { over_.Notify(); }},
      [&](grpc::ClientContext* context, auto* reactor) {
        stub_->async()->Connect(context, reactor);
      });
  Send(hello);
  heartbeats_ = std::thread([this] { SendHeartbeats(); });
}

FakeNode::~FakeNode() {
  leaving_.Notify();
  heartbeats_.join();
  stream_->Cancel();
  stream_->WaitUntilDone(absl::Seconds(10));
}

void FakeNode::Send(const v1::AgentMessage& message) {
  absl::MutexLock lock(&send_mutex_);
  if (outgoing_ == nullptr) {
    (void)stream_->Send(message);
    return;
  }
  for (const v1::AgentMessage& changed : outgoing_(message)) {
    (void)stream_->Send(changed);
  }
}

void FakeNode::HoldAt(int64_t step) {
  absl::MutexLock lock(&mutex_);
  hold_at_ = step;
  for (auto& [job_id, share] : shares_) RunSteps(share);
}

v1::AttemptId FakeNode::attempt() {
  absl::MutexLock lock(&mutex_);
  return newest_;
}

bool FakeNode::WaitFor(v1::CoordinatorMessage::WhatCase what) {
  absl::MutexLock lock(&mutex_);
  const auto seen = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return seen_.contains(what);
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&seen), absl::Seconds(20));
}

bool FakeNode::HasFinished(const std::string& job_id, int attempt) {
  absl::MutexLock lock(&mutex_);
  return finished_.contains({job_id, attempt});
}

void FakeNode::SendHeartbeats() {
  v1::AgentMessage message;
  message.mutable_heartbeat();
  while (!leaving_.WaitForNotificationWithTimeout(kHeartbeat)) {
    (void)stream_->Send(message);
  }
}

FakeNode::Share* FakeNode::Find(const v1::AttemptId& id) {
  const auto share = shares_.find(id.job_id());
  const bool known =
      share != shares_.end() &&
      share->second.assignment.attempt().attempt() == id.attempt();
  return known ? &share->second : nullptr;
}

void FakeNode::On(const v1::CoordinatorMessage& message) {
  absl::MutexLock lock(&mutex_);
  seen_.insert(message.what_case());
  if (message.has_assignment()) {
    newest_ = message.assignment().attempt();
    shares_[newest_.job_id()] = {message.assignment(), {}, false};
    return Send(Ready(newest_));
  }
  if (message.has_end()) return Send(Ended(message.end().attempt()));
  if (message.has_abandon()) return Send(Ended(message.abandon().attempt()));
  if (message.has_begin()) {
    if (Share* share = Find(message.begin().attempt())) OnBegin(*share);
  } else if (message.has_plan()) {
    Share* const share = Find(message.plan().attempt());
    if (share != nullptr) OnPlan(*share, message.plan().plan());
  } else if (message.has_stop()) {
    if (Share* share = Find(message.stop().attempt())) End(*share, 0);
  }
}

void FakeNode::OnBegin(const Share& share) {
  const v1::AttemptId id = share.assignment.attempt();
  ForRanks(share.assignment, [&](int rank) { Send(Data(id, rank)); });
  if (share.assignment.first_rank() == 0) Send(Costs(id));
  for (int64_t step = 0; step < share.assignment.spec().look_ahead(); ++step) {
    SendLengths(share, step);
  }
}

void FakeNode::SendLengths(const Share& share, int64_t step) {
  const v1::JobSpec& spec = share.assignment.spec();
  if (step >= spec.steps()) return;
  ForRanks(share.assignment, [&](int rank) {
    Send(Lengths(share.assignment.attempt(), rank, spec.ranks(), step));
  });
}

void FakeNode::OnPlan(Share& share, const v1::StepPlan& plan) {
  if (plan.step() == 0) {
    ForRanks(share.assignment, [&](int rank) {
      Send(Started(share.assignment.attempt(), rank));
    });
  }
  share.plans[plan.step()] = plan;
  RunSteps(share);
}

void FakeNode::RunSteps(Share& share) {
  while (!share.plans.empty() && !share.ended) {
    const v1::StepPlan plan = share.plans.begin()->second;
    if (hold_at_ >= 0 && plan.step() >= hold_at_) return;
    share.plans.erase(share.plans.begin());
    RunStep(share, plan);
  }
}

void FakeNode::RunStep(Share& share, const v1::StepPlan& plan) {
  const v1::AttemptId& id = share.assignment.attempt();
  ForRanks(share.assignment, [&](int rank) {
    Send(Log(id, rank, absl::StrCat("step=", plan.step())));
    Send(Step(id, rank, plan));
  });
  SendLengths(share, plan.step() + share.assignment.spec().look_ahead());
  const int64_t steps = share.assignment.spec().steps();
  if (plan.step() + 1 < steps) return;
  finished_.insert({id.job_id(), id.attempt()});
  End(share, steps);
}

void FakeNode::End(Share& share, int64_t steps) {
  const v1::AttemptId& id = share.assignment.attempt();
  if (std::exchange(share.ended, true)) return Send(Ended(id));
  ForRanks(share.assignment,
           [&](int rank) { Send(CleanExit(id, rank, steps)); });
  Send(Ended(id));
}

}  // namespace evenstep::coordinator::testing
