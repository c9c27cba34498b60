#include "coordinator/server/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/server/job_errors.h"
#include "coordinator/server/message_check.h"
#include "google/protobuf/util/time_util.h"

namespace evenstep::coordinator {
namespace {

constexpr absl::Duration kGaugeInterval = absl::Milliseconds(200);
// Finished jobs are looked through so often, and sooner while there are more to
// remove.
constexpr absl::Duration kForgettingInterval = absl::Seconds(30);
constexpr absl::Duration kForgettingPause = absl::Milliseconds(100);
constexpr size_t kForgottenAtOnce = 5;

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixNanos(
      google::protobuf::util::TimeUtil::TimestampToNanoseconds(timestamp));
}

absl::Time EndOf(const JobRecord& record) { return ToTime(record.job.ended()); }

// When something last happened to the job; one that is not set is 1970.
absl::Time LastStampOf(const v1::Job& job) {
  return std::max(
      {ToTime(job.submitted()), ToTime(job.started()), ToTime(job.ended())});
}

SupervisorParts PartsForSupervisor(const CoordinatorParts& parts,
                                   JobRegistry& book, NodeTable& nodes,
                                   Rendezvous& rendezvous) {
  return {book,        nodes,          rendezvous, parts.metrics,
          parts.clock, parts.planners, parts.post, parts.planner};
}

}  // namespace

Coordinator::Coordinator(CoordinatorParts parts,
                         const CoordinatorOptions& options)
    : parts_(std::move(parts)),
      options_(options),
      book_(parts_.store, parts_.clock),
      nodes_(options.times.lease, options.times.stream_grace),
      followers_(book_, parts_.store),
      supervisor_(PartsForSupervisor(parts_, book_, nodes_, rendezvous_),
                  options.times) {}

absl::Status Coordinator::Start() {
  EVENSTEP_RETURN_IF_ERROR(book_.Load());
  allocate_from_ = Now();
  started_ = Now();
  last_stamp_ = book_.All().empty() ? parts_.clock.Wall() : absl::UnixEpoch();
  for (JobRecord* record : book_.All()) {
    last_stamp_ = std::max(last_stamp_, LastStampOf(record->job));
    // Only a store that has known attempts can have left processes behind.
    if (record->job.attempt() > 0) {
      allocate_from_ = Now() + options_.times.lease;
    }
    if (HoldsSlots(record->status.state)) supervisor_.Restore(*record);
  }
  UpdateGauges();
  return book_.health();
}

void Coordinator::OnHello(const std::shared_ptr<AgentLink>& link,
                          const v1::AgentHello& hello) {
  if (shutting_down_) return link->Close(ShuttingDown());
  const absl::Status legal = CheckHello(hello);
  if (!legal.ok()) {
    parts_.metrics.CountRefusedMessage("hello", "content");
    Log(LogLevel::kWarning, "hello_refused", {{"error", legal}});
    return link->Close(legal);
  }
  // After a restart only the attempts know whose a name is, for one lease.
  if (Now() < allocate_from_ && !supervisor_.MayTakeName(hello)) {
    return link->Close(absl::AlreadyExistsError(absl::StrCat(
        "node name '", hello.node(),
        "' is another agent's, which may still come back; give each agent its "
        "own --node")));
  }
  const auto kind = nodes_.Hello(hello, link, Now());
  if (!kind.ok()) return link->Close(kind.status());
  Log(LogLevel::kInfo, "node_connected",
      {{"node", hello.node()},
       {"slots", hello.slots()},
       {"running", hello.running_size()}});
  v1::CoordinatorMessage message;
  v1::Welcome* const welcome = message.mutable_welcome();
  welcome->set_heartbeat_interval_ms(
      absl::ToInt64Milliseconds(options_.heartbeat_interval));
  welcome->set_lease_ms(absl::ToInt64Milliseconds(options_.times.lease));
  welcome->set_version(options_.version);
  welcome->set_reconnect_budget_ms(
      absl::ToInt64Milliseconds(options_.times.reconnect_budget));
  link->Send(message);
  supervisor_.OnHello(hello, *kind);
}

void Coordinator::OnAgentMessage(const std::shared_ptr<AgentLink>& link,
                                 const v1::AgentMessage& message) {
  Node* const node = nodes_.NodeOf(link.get());
  if (message.has_hello() && node == nullptr) {
    OnHello(link, message.hello());
  } else if (node == nullptr || message.has_hello()) {
    return link->Close(absl::FailedPreconditionError(
        "a stream begins with one hello, and another stream replaces it"));
  } else {
    nodes_.Renew(*node, Now());
    if (!message.has_heartbeat()) HandOver(*node, message);
  }
  PumpFollowers();
}

// To the supervisor, until the agent has shown that it is broken.
void Coordinator::HandOver(Node& node, const v1::AgentMessage& message) {
  const absl::Status status = supervisor_.OnMessage(node.name, message);
  if (status.ok()) {
    if (message.abandon().reason() == "AGENT_STOPPING") node.leaving = true;
    return;
  }
  if (++node.num_refused < kMaxRefusedMessages) return;
  Log(LogLevel::kError, "agent_refused",
      {{"node", node.name}, {"refused", node.num_refused}});
  const std::shared_ptr<AgentLink> link = node.link;
  nodes_.Disconnect(link.get(), Now());
  supervisor_.OnDisconnected(node.name);
  link->Close(absl::InvalidArgumentError(absl::StrCat(
      node.num_refused, " messages of node '", node.name,
      "' were refused, the last one because: ", status.message())));
}

void Coordinator::OnAgentGone(const AgentLink* link) {
  const Node* const node = nodes_.NodeOf(link);
  if (node == nullptr) return;  // another stream has replaced it
  nodes_.Disconnect(link, Now());
  supervisor_.OnDisconnected(node->name);
  PumpFollowers();
}

void Coordinator::HandleRendezvous(const v1::RendezvousRequest& request,
                                   Rendezvous::Answer answer) {
  if (shutting_down_) return answer(ShuttingDown());
  rendezvous_.Handle(request, Now(), std::move(answer));
}

void Coordinator::Schedule() {
  if (shutting_down_ || Now() < allocate_from_) return;
  while (StartOne()) {
  }
}

// Starts the next job if it can run.
bool Coordinator::StartOne() {
  free_nodes_ = nodes_.Free(supervisor_.UsedSlots(), Now());
  const WaitingJob* const next = book_.queue().Next(TotalSlots(free_nodes_));
  if (next == nullptr || !book_.health().ok()) return false;
  const auto shares = PlaceGang(next->ranks, free_nodes_);
  if (!shares) return false;
  const std::string job_id = next->job_id;
  const absl::Status begun = supervisor_.Begin(*book_.Find(job_id), *shares);
  if (begun.ok()) return true;
  Log(LogLevel::kError, "attempt_not_started",
      {{"job", job_id}, {"error", begun}});
  return absl::IsInvalidArgument(begun) && RefuseQueued(job_id, begun);
}

// A stored job that the rules of this version refuse must not hold the queue.
bool Coordinator::RefuseQueued(const std::string& job_id,
                               const absl::Status& why) {
  const absl::Status moved = book_.MoveDurably(
      *book_.Find(job_id),
      {JobAction::kRefuseQueued, JobState::kFailed, "INVALID_JOB",
       absl::StrCat("this version of the coordinator refuses the job: ",
                    why.message())});
  if (!moved.ok()) return false;
  parts_.metrics.CountFinishedJob(JobState::kFailed);
  supervisor_.ForgetLostStarts(job_id);
  return true;
}

// The job with what is worked out where it is shown: why it waits, where in the
// queue, and for which nodes it has not stopped.
v1::Job Coordinator::Shown(const JobRecord& record) const {
  v1::Job job = record.job;
  const std::string wait = supervisor_.DescribeWait(job.job_id());
  if (!wait.empty()) {
    job.set_message(absl::StrCat(job.message(), "; waiting for ", wait));
  }
  if (record.status.state != JobState::kQueued) return job;
  job.set_queue_position(book_.queue().PositionOf(record.arrival));
  PendingReason pending = {
      "SETTLING",
      "the coordinator restarted; nodes have one lease to come back"};
  if (Now() >= allocate_from_) {
    pending = WhyWaiting({record.arrival, job.job_id(), job.spec().ranks()},
                         book_.queue(), free_nodes_);
  }
  job.set_reason(pending.reason);
  job.set_message(pending.message);
  return job;
}

void Coordinator::Flush() {
  if (Now() < next_flush_) return;
  next_flush_ = Now() + options_.flush_interval;
  const absl::Status flushed = book_.Flush();
  if (flushed.ok()) return;
  parts_.metrics.CountStoreError();
  next_flush_ = Now() + absl::Seconds(1);
  Log(LogLevel::kError, "store_failed", {{"error", flushed}});
}

void Coordinator::PumpFollowers() {
  for (const std::string& job_id : book_.TakeTouched()) {
    followers_.PumpJob(job_id);
  }
}

void Coordinator::UpdateGauges() {
  if (Now() < next_gauges_) return;
  next_gauges_ = Now() + kGaugeInterval;
  parts_.metrics.SetJobs(book_.counts());
  int connected = 0, slots = 0, used = 0;
  for (const auto& [name, node] : nodes_.nodes()) {
    if (node.link == nullptr) continue;
    ++connected;
    slots += node.slots;
  }
  for (const auto& [name, taken] : supervisor_.UsedSlots()) used += taken;
  parts_.metrics.SetNodes(connected,
                          static_cast<int>(nodes_.nodes().size()) - connected);
  parts_.metrics.SetSlots(slots, used);
  parts_.metrics.RemoveOld(Now(), options_.metrics_retention);
}

// A coordinator that was stopped for long has heard nobody: that is its own
// silence, and every node gets one lease to be heard or to come back.
void Coordinator::ForgiveOwnSleep() {
  const absl::Duration slept = Now() - std::exchange(last_tick_, Now());
  if (slept < options_.times.lease / 2) return;
  nodes_.RenewAll(Now());
  supervisor_.ForgiveSilence();
}

// The time of day as far as a second source confirms it: what the store knew at
// start, and what has passed on the monotonic clock since. A wall clock that
// jumps ahead makes no job older. Time during which no coordinator ran counts
// only once a later job is stored.
absl::Time Coordinator::VerifiedNow() const {
  return std::min(parts_.clock.Wall(), last_stamp_ + (Now() - started_));
}

// The oldest ends first, and only a few at a time: the disk is slow.
void Coordinator::ForgetOldJobs() {
  if (Now() < next_forgetting_ || !book_.health().ok()) return;
  next_forgetting_ = Now() + kForgettingInterval;
  std::vector<const JobRecord*> ended;
  for (const JobRecord* record : book_.All()) {
    if (IsFinal(record->status.state)) ended.push_back(record);
  }
  std::stable_sort(
      ended.begin(), ended.end(),
      [](const auto* a, const auto* b) { return EndOf(*a) < EndOf(*b); });
  const auto limit = static_cast<size_t>(options_.retained_jobs);
  const absl::Time now = VerifiedNow();
  for (size_t i = 0; i < std::min(ended.size(), kForgottenAtOnce); ++i) {
    const bool too_many = limit > 0 && ended.size() - i > limit;
    const bool too_old = options_.retained_for > absl::ZeroDuration() &&
                         EndOf(*ended[i]) < now - options_.retained_for;
    if (!too_old && !too_many) return;
    const std::string job_id = ended[i]->job.job_id();
    const absl::Status removed = book_.Remove(job_id);
    Log(removed.ok() ? LogLevel::kInfo : LogLevel::kError, "job_forgotten",
        {{"job", job_id}, {"status", removed}});
    if (!removed.ok()) return parts_.metrics.CountStoreError();
  }
  if (ended.size() > kForgottenAtOnce) {
    next_forgetting_ = Now() + kForgettingPause;
  }
}

void Coordinator::Tick() {
  ForgiveOwnSleep();
  for (const LostNode& lost : nodes_.TakeLost(Now())) supervisor_.OnLost(lost);
  supervisor_.Tick();
  rendezvous_.Expire(Now());
  Flush();
  Schedule();
  nodes_.ForgetLost(supervisor_.UsedSlots());
  ForgetOldJobs();
  PumpFollowers();
  UpdateGauges();
}

void Coordinator::Shutdown() {
  shutting_down_ = true;
  const absl::Status flushed = book_.Flush();
  if (!flushed.ok())
    Log(LogLevel::kError, "store_failed", {{"error", flushed}});
  PumpFollowers();
  followers_.FinishAll(ShuttingDown());
  rendezvous_.CloseAll(ShuttingDown());
  for (const auto& [name, node] : nodes_.nodes()) {
    if (node.link != nullptr) node.link->Close(ShuttingDown());
  }
}

}  // namespace evenstep::coordinator
