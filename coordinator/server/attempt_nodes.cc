// Nodes that come, go and come back, as their attempts see it; a third of
// AttemptSupervisor.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "coordinator/server/attempt_supervisor.h"
#include "rpc/transport.h"

namespace evenstep::coordinator {
namespace {

bool Lists(const v1::AgentHello& hello, const v1::AttemptId& id) {
  return std::any_of(hello.running().begin(), hello.running().end(),
                     [&](const v1::AttemptId& running) {
                       return running.job_id() == id.job_id() &&
                              running.attempt() == id.attempt();
                     });
}

std::string DescribeMessage(const v1::CoordinatorMessage& message) {
  if (message.has_plan()) {
    return absl::StrCat("the plan of step ", message.plan().plan().step());
  }
  return message.has_assignment() ? "the assignment" : "a message";
}

v1::CoordinatorMessage EndMessage(const v1::AttemptId& id) {
  v1::CoordinatorMessage message;
  *message.mutable_end()->mutable_attempt() = id;
  message.mutable_end()->set_message("the attempt is over");
  return message;
}

}  // namespace

// How long an attempt waits for a lost node. A job that ends does not: nothing
// of it starts again, and a node that comes back with the attempt gets no new
// work before it has ended it. A job that is queued again waits as long as the
// node's trainers may live: until its agent finds the connection dead, its
// reconnect budget is spent and it has killed them. Trainers whose agent does
// not run end themselves in that time, but for a heartbeat, which is less than
// the lease.
absl::Duration AttemptSupervisor::GoneAfter(const Live& live) const {
  const JobRecord& record = *parts_.book.Find(live.attempt.id().job_id());
  if (IsFinal(record.status.after_stopping)) return absl::ZeroDuration();
  return rpc::kKeepaliveInterval + rpc::kKeepaliveTimeout +
         times_.reconnect_budget + times_.kill_grace + times_.lease;
}

// The agent that has the node's name now is the one that runs the attempt, or
// its successor in the same work folder.
bool AttemptSupervisor::IsOwn(const Live& live, const std::string& node) const {
  const auto folder = live.folder_ids.find(node);
  if (folder == live.folder_ids.end()) return false;
  const Node* const known = parts_.nodes.Find(node);
  return folder->second.empty() || known == nullptr ||
         known->folder_id == folder->second;
}

bool AttemptSupervisor::MayTakeName(const v1::AgentHello& hello) const {
  return std::all_of(live_.begin(), live_.end(), [&](const auto& entry) {
    const Live& live = *entry.second;
    const auto folder = live.folder_ids.find(hello.node());
    return folder == live.folder_ids.end() || folder->second.empty() ||
           live.attempt.IsGone(hello.node()) ||
           folder->second == FolderIdOf(hello);
  });
}

void AttemptSupervisor::SendTo(const Live& live, const std::string& node,
                               const v1::CoordinatorMessage& message) {
  if (!IsOwn(live, node)) return;
  const size_t bytes = message.ByteSizeLong();
  if (bytes <= rpc::kMaxMessageBytes) {
    parts_.nodes.Send(node, message);
    return;
  }
  // The stream would break on it, and break again after every reconnect.
  parts_.metrics.CountRefusedMessage("outgoing", "too_large");
  Live* const own = Find(live.attempt.id());
  if (own == nullptr || own->stopping) return;
  AddCause(*own,
           {"MESSAGE_TOO_LARGE",
            absl::StrCat(DescribeMessage(message), " takes ", bytes,
                         " bytes, and a message to an agent at most ",
                         rpc::kMaxMessageBytes, "; use fewer samples a step")});
}

void AttemptSupervisor::SendToAll(const Live& live,
                                  const v1::CoordinatorMessage& message) {
  for (const std::string& node : live.attempt.NodesNotGone()) {
    SendTo(live, node, message);
  }
}

// Assignment or begin was lost with the stream that it was on. An agent that
// has run the attempt meanwhile does not run it again.
void AttemptSupervisor::Reassign(Live& live, const std::string& node) {
  Log(LogLevel::kWarning, "assigned_again",
      {{"job", live.attempt.id().job_id()}, {"node", node}});
  live.ready.erase(node);
  for (const NodeShare& share : live.attempt.shares()) {
    if (share.node == node) SendAssignment(live, share);
  }
}

// A node that lost its stream has lost what was sent meanwhile.
void AttemptSupervisor::Resend(Live& live, const std::string& node) {
  if (live.stopping) {
    if (Now() >= live.end_at ||
        live.stop_message.what_case() == v1::CoordinatorMessage::WHAT_NOT_SET) {
      return SendEnd(live, node);
    }
    SendTo(live, node, live.stop_message);
    return;
  }
  for (const v1::StepPlan* plan : live.steps.HeldPlans()) {
    v1::CoordinatorMessage message;
    *message.mutable_plan()->mutable_attempt() = live.attempt.id();
    *message.mutable_plan()->mutable_plan() = *plan;
    SendTo(live, node, message);
  }
}

// The start has not come so far that the node's trainers have spoken.
bool AttemptSupervisor::IsUnheardStart(Live& live, const std::string& node) {
  return !live.stopping && !live.heard.contains(node) &&
         RecordOf(live).status.state == JobState::kStarting;
}

// Jobs whose attempts the node is part of.
std::vector<std::string> AttemptSupervisor::JobsOn(
    const std::string& node) const {
  std::vector<std::string> jobs;
  for (const auto& [job_id, live] : live_) {
    if (live->attempt.HasNode(node) && !live->attempt.IsGone(node) &&
        IsOwn(*live, node)) {
      jobs.push_back(job_id);
    }
  }
  return jobs;
}

void AttemptSupervisor::OnHello(const v1::AgentHello& hello, HelloKind kind) {
  for (const v1::AttemptId& running : hello.running()) {
    const Live* const live = Find(running);
    if (live != nullptr && IsOwn(*live, hello.node()) &&
        !live->attempt.IsGone(hello.node())) {
      continue;
    }
    parts_.metrics.CountStaleMessage("hello");
    Log(LogLevel::kWarning, "leftover_attempt",
        {{"node", hello.node()},
         {"job", running.job_id()},
         {"attempt", running.attempt()}});
    parts_.nodes.AddLeftover(hello.node(), running);
  }
  EndLeftovers();
  for (const std::string& job_id : JobsOn(hello.node())) {
    GreetAttempt(*live_.at(job_id), hello, kind);
    FinishIfGone(job_id);
  }
}

void AttemptSupervisor::GreetAttempt(Live& live, const v1::AgentHello& hello,
                                     HelloKind kind) {
  const std::string& node = hello.node();
  live.lost_at.erase(node);
  live.log_numbers.erase(node);
  if (Lists(hello, live.attempt.id())) return Resend(live, node);
  const bool unheard = IsUnheardStart(live, node);
  if (unheard && kind == HelloKind::kReconnected) return Reassign(live, node);
  live.attempt.MarkGone(node);
  if (live.stopping) return;
  if (unheard) {
    return PutBack(live, absl::StrCat("node ", node,
                                      ": its agent restarted before its "
                                      "trainers had spoken"));
  }
  if (kind == HelloKind::kReconnected) {
    live.unexplained[node] = Now() + times_.explain_grace;
    return;
  }
  AddCause(live, {"NODE_LOST", absl::StrCat("node ", node,
                                            ": its agent restarted, the "
                                            "trainers are gone")});
}

// Without a stream an agent forgets what it has only taken.
void AttemptSupervisor::OnDisconnected(const std::string& node) {
  for (const std::string& job_id : JobsOn(node)) {
    Live& live = *live_.at(job_id);
    if (live.begun || live.heard.contains(node)) continue;
    live.attempt.MarkGone(node);
    if (!live.stopping) {
      PutBack(live, absl::StrCat("node ", node,
                                 " went away before it had taken its ranks"));
    }
    FinishIfGone(job_id);
  }
}

// Again and again, as EndNow does for attempts that are not over.
void AttemptSupervisor::EndLeftovers() {
  for (const auto& [node, id] :
       parts_.nodes.TakeLeftovers(Now(), times_.end_interval)) {
    parts_.nodes.Send(node, EndMessage(id));
  }
}

std::string AttemptSupervisor::DescribeWait(const std::string& job_id) const {
  const auto it = live_.find(job_id);
  if (it == live_.end() || !it->second->stopping) return "";
  const Live& live = *it->second;
  std::vector<std::string> waits;
  for (const std::string& node : live.attempt.NodesNotGone()) {
    if (parts_.nodes.IsConnected(node)) continue;
    const auto lost = live.lost_at.find(node);
    if (lost == live.lost_at.end()) {
      waits.push_back(
          absl::StrCat("node ", node, ", which has lost its stream"));
      continue;
    }
    const absl::Duration left =
        std::max(absl::ZeroDuration(), lost->second + GoneAfter(live) - Now());
    waits.push_back(absl::StrCat(
        "node ", node, " for ",
        absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))), " at most"));
  }
  return absl::StrJoin(waits, "; ");
}

void AttemptSupervisor::OnLost(const LostNode& lost) {
  const std::string& node = lost.name;
  parts_.metrics.CountLostNode();
  Log(LogLevel::kWarning, "node_lost", {{"node", node}});
  OnDisconnected(node);
  for (const std::string& job_id : JobsOn(node)) {
    Live& live = *live_.at(job_id);
    live.lost_at[node] = Now();
    const std::string message = absl::StrCat(
        "node ", node, " was silent for ", absl::FormatDuration(lost.silence));
    if (IsUnheardStart(live, node)) {
      PutBack(live, absl::StrCat(message, " when it was to start"));
    } else {
      AddCause(live, {"NODE_LOST", message});
    }
  }
}

}  // namespace evenstep::coordinator
