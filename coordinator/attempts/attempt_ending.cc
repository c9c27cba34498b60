#include "coordinator/attempts/attempt_ending.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evenstep::coordinator {

AttemptEnding::AttemptEnding(v1::AttemptId id, NodeRuns& nodes,
                             AttemptLinks& links, const AttemptTimes& times)
    : id_(std::move(id)), nodes_(nodes), links_(links), times_(times) {}

void AttemptEnding::AddCause(FailureCause cause, absl::Duration now) {
  if (!cause_) cause_since_ = now;
  if (!cause_ || cause.kind > cause_->kind) cause_ = std::move(cause);
  Hurry(now);
}

void AttemptEnding::Hurry(absl::Duration now) {
  if (cause_ && cancelled_) end_at_ = std::min(end_at_, now);
}

const FailureCause* AttemptEnding::DueCause(absl::Duration now) const {
  if (!cause_ || stopping_) return nullptr;
  if (cause_->kind != CauseKind::kRootCause &&
      (now < cause_since_ + times_.cause_grace || AwaitsNode())) {
    return nullptr;
  }
  return &*cause_;
}

// A node without a stream may be the root cause; its lease will tell.
bool AttemptEnding::AwaitsNode() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const NodeRun& node) {
    return !IsGone(node.state) && !links_.IsConnected(node);
  });
}

void AttemptEnding::Begin(JobState after, const std::string& text,
                          absl::Duration end_at) {
  after_ = after;
  text_ = text;
  if (std::exchange(stopping_, true)) return;
  end_at_ = end_at;
}

void AttemptEnding::SendAbandon(const FailureCause& cause, int weights_rank) {
  v1::Abandon* const abandon = stop_message_.mutable_abandon();
  *abandon->mutable_attempt() = id_;
  abandon->set_next_generation(0);
  abandon->set_reason(cause.reason);
  abandon->set_message(cause.message);
  abandon->set_weights_rank(weights_rank);
  SendToAll(stop_message_);
}

void AttemptEnding::SendStop() {
  v1::StopAttempt* const stop = stop_message_.mutable_stop();
  *stop->mutable_attempt() = id_;
  stop->set_message(text_);
  SendToAll(stop_message_);
}

void AttemptEnding::SendToAll(const v1::CoordinatorMessage& message) {
  for (const NodeRun& node : nodes_) {
    if (!IsGone(node.state)) (void)links_.Send(node, message);
  }
}

void AttemptEnding::SendEnds(absl::Duration now) {
  for (const NodeRun& node : nodes_) {
    if (!IsGone(node.state)) SendEnd(node);
  }
  end_at_ = now + times_.end_interval;
}

void AttemptEnding::SendEnd(const NodeRun& node) {
  v1::CoordinatorMessage message;
  *message.mutable_end()->mutable_attempt() = id_;
  message.mutable_end()->set_message(text_);
  (void)links_.Send(node, message);  // too small to be refused
}

void AttemptEnding::Resend(const NodeRun& node, absl::Duration now) {
  if (now >= end_at_ ||
      stop_message_.what_case() == v1::CoordinatorMessage::WHAT_NOT_SET) {
    return SendEnd(node);
  }
  (void)links_.Send(node, stop_message_);
}

void AttemptEnding::ReleaseUnbegun() {
  for (NodeRun& node : nodes_) {
    if (IsGone(node.state) || MayHaveTrainers(node.state)) continue;
    SendEnd(node);
    node.Apply(NodeEvent::kEnd);
  }
}

std::vector<std::string> AttemptEnding::CheckTimes(absl::Duration now) {
  if (now >= end_at_) SendEnds(now);
  std::vector<std::string> given_up;
  for (NodeRun& node : nodes_) {
    if (node.state != NodeState::kLost || now < node.lost_at + GoneAfter()) {
      continue;
    }
    node.Apply(NodeEvent::kEnd);
    given_up.push_back(node.name());
  }
  return given_up;
}

// How long an attempt waits for a lost node. A job that ends does not: nothing
// of it starts again, and a node that comes back with the attempt gets no new
// work before it has ended it. A job that is queued again waits as long as the
// node's trainers may live: until its agent finds the connection dead, its
// reconnect budget is spent and it has killed them. Trainers whose agent does
// not run end themselves in that time, but for a heartbeat, which is less than
// the lease.
absl::Duration AttemptEnding::GoneAfter() const {
  if (IsFinal(after_)) return absl::ZeroDuration();
  return rpc::kKeepaliveInterval + rpc::kKeepaliveTimeout +
         times_.reconnect_budget + times_.kill_grace + times_.lease;
}

std::string AttemptEnding::DescribeWait(absl::Duration now) const {
  if (!stopping_) return "";
  std::vector<std::string> waits;
  for (const NodeRun& node : nodes_) {
    if (IsGone(node.state) || links_.IsConnected(node)) continue;
    std::string wait = absl::StrCat("node ", node.name());
    if (node.state == NodeState::kLost) {
      const absl::Duration left =
          std::max(absl::ZeroDuration(), node.lost_at + GoneAfter() - now);
      absl::StrAppend(&wait, " for ",
                      absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))),
                      " at most");
    } else {
      absl::StrAppend(&wait, ", which has lost its stream");
    }
    waits.push_back(std::move(wait));
  }
  return absl::StrJoin(waits, "; ");
}

}  // namespace evenstep::coordinator
