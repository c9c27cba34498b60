#include "coordinator/attempts/attempt_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"

namespace evenstep::coordinator {
namespace {

v1::AttemptId IdOf(const v1::Job& job) {
  v1::AttemptId id;
  id.set_job_id(job.job_id());
  id.set_attempt(job.attempt());
  id.set_generation(job.generation());
  return id;
}

v1::Assignment AssignmentOf(const v1::Job& job) {
  v1::Assignment assignment;
  *assignment.mutable_attempt() = IdOf(job);
  *assignment.mutable_spec() = job.spec();
  *assignment.mutable_placements() = job.placements();
  return assignment;
}

NodeRuns NodesOf(const v1::Job& job) {
  NodeRuns nodes;
  for (const v1::Placement& placement : job.placements()) {
    nodes.push_back(
        {{placement.node(), placement.first_rank(), placement.num_ranks()},
         placement.folder_id()});
  }
  return nodes;
}

std::vector<NodeShare> SharesOf(const NodeRuns& nodes) {
  std::vector<NodeShare> shares;
  for (const NodeRun& node : nodes) shares.push_back(node.share);
  return shares;
}

std::vector<int> RanksPerNode(const NodeRuns& nodes) {
  std::vector<int> ranks;
  for (const NodeRun& node : nodes) ranks.push_back(node.share.num_ranks);
  return ranks;
}

v1::CoordinatorMessage PlanMessage(const v1::AttemptId& id,
                                   const v1::StepPlan& plan) {
  v1::CoordinatorMessage message;
  *message.mutable_plan()->mutable_attempt() = id;
  *message.mutable_plan()->mutable_plan() = plan;
  return message;
}

v1::CoordinatorMessage ShareMessage(const v1::Assignment& assignment,
                                    const NodeRun& node) {
  v1::CoordinatorMessage message;
  *message.mutable_assignment() = assignment;
  message.mutable_assignment()->set_first_rank(node.share.first_rank);
  message.mutable_assignment()->set_num_ranks(node.share.num_ranks);
  return message;
}

std::string DescribeMessage(const v1::CoordinatorMessage& message) {
  if (message.has_plan()) {
    return absl::StrCat("the plan of step ", message.plan().plan().step());
  }
  return message.has_assignment() ? "the assignment" : "a message";
}

}  // namespace

AttemptRun::AttemptRun(const v1::Job& job, const jobspec::JobSpec& spec,
                       AttemptLinks& links, const AttemptTimes& times,
                       absl::Duration now)
    : id_(IdOf(job)),
      spec_(spec),
      assignment_(AssignmentOf(job)),
      links_(links),
      times_(times),
      nodes_(NodesOf(job)),
      steps_(spec_, RanksPerNode(nodes_), id_.generation()),
      ranks_(SharesOf(nodes_)),
      start_{now + spec_.timeouts.start},
      ending_(id_, nodes_, links, times) {}

void AttemptRun::Assign(absl::Duration now) {
  for (const NodeRun& node : nodes_) {
    Tell(node, ShareMessage(assignment_, node), now);
  }
}

void AttemptRun::TakeShare(NodeRun& node, absl::Duration now) {
  node.Apply(NodeEvent::kTakeShare);
  if (stopping()) return;
  const auto send_begin = [&](const NodeRun& told) {
    v1::CoordinatorMessage message;
    *message.mutable_begin()->mutable_attempt() = id_;
    Tell(told, message, now);
    Resend(told, now);
  };
  if (start_.begun) {  // only a node that lost the word still waits for it
    if (node.state == NodeState::kBegun) send_begin(node);
    return;
  }
  start_.begun =
      std::all_of(nodes_.begin(), nodes_.end(),
                  [](const NodeRun& each) { return HoldsShare(each.state); });
  if (!start_.begun) return;
  for (NodeRun& each : nodes_) {
    each.Apply(NodeEvent::kBegin);
    send_begin(each);
  }
}

// The start has not come so far that the node's trainers have spoken.
bool AttemptRun::IsUnheardStart(const NodeRun& node) const {
  return !stopping() && !start_.complete && IsUnheard(node.state);
}

void AttemptRun::Rejoin(NodeRun& node, NodeReturn how, absl::Duration now) {
  node.last_log_line = 0;
  if (how == NodeReturn::kWithAttempt) {
    node.Apply(NodeEvent::kReturn);
    return Resend(node, now);
  }
  const bool unheard = IsUnheardStart(node);
  if (how == NodeReturn::kWithoutAttempt && unheard) {
    // Assignment or begin was lost with the stream that it was on. An agent
    // that has run the attempt meanwhile does not run it again.
    Log(LogLevel::kWarning, "assigned_again",
        {{"job", id_.job_id()}, {"node", node.name()}});
    node.Apply(NodeEvent::kForget);
    return Tell(node, ShareMessage(assignment_, node), now);
  }
  if (how == NodeReturn::kWithoutAttempt && !stopping()) {
    node.Apply(NodeEvent::kVanish);
    node.explain_until = now + times_.explain_grace;
    return;
  }
  node.Apply(NodeEvent::kEnd);
  if (unheard) {
    start_.lost =
        absl::StrCat("node ", node.name(),
                     ": its agent restarted before its trainers had spoken");
  } else if (!stopping()) {
    ending_.AddCause(
        {"NODE_LOST",
         absl::StrCat("node ", node.name(),
                      ": its agent restarted, the trainers are gone")},
        now);
  }
}

// Without a stream an agent forgets what it has only taken.
void AttemptRun::Disconnect(NodeRun& node) {
  if (IsGone(node.state) || MayHaveTrainers(node.state)) return;
  node.Apply(NodeEvent::kEnd);
  if (stopping()) return;
  start_.lost = absl::StrCat("node ", node.name(),
                             " went away before it had taken its ranks");
}

void AttemptRun::Lose(NodeRun& node, absl::Duration silence,
                      absl::Duration now) {
  const bool unheard = IsUnheardStart(node);
  node.Apply(NodeEvent::kLose);
  node.lost_at = now;
  const std::string message = absl::StrCat(
      "node ", node.name(), " was silent for ", absl::FormatDuration(silence));
  if (unheard) {
    start_.lost = absl::StrCat(message, " when it was to start");
  } else {
    ending_.AddCause({"NODE_LOST", message}, now);
  }
}

void AttemptRun::ConfirmEnd(NodeRun& node, absl::Duration now) {
  node.Apply(NodeEvent::kEnd);
  if (stopping() || ranks_.ended_clean(node.name())) return;
  ending_.AddCause({"INTERNAL",
                    absl::StrCat("node ", node.name(),
                                 " ended its trainers without saying why"),
                    CauseKind::kSuspected},
                   now);
}

void AttemptRun::SendPlan(const v1::StepPlan& plan, absl::Duration now) {
  const v1::CoordinatorMessage message = PlanMessage(id_, plan);
  for (const NodeRun& node : nodes_) {
    if (!IsGone(node.state)) Tell(node, message, now);
  }
}

void AttemptRun::Tell(const NodeRun& node,
                      const v1::CoordinatorMessage& message,
                      absl::Duration now) {
  const absl::Status sent = links_.Send(node, message);
  if (sent.ok() || stopping()) return;
  ending_.AddCause({"MESSAGE_TOO_LARGE",
                    absl::StrCat(DescribeMessage(message), " ", sent.message(),
                                 "; use fewer samples a step")},
                   now);
}

// A node that lost its stream has lost what was sent meanwhile.
void AttemptRun::Resend(const NodeRun& node, absl::Duration now) {
  if (stopping()) return ending_.Resend(node, now);
  for (const v1::StepPlan* plan : steps_.HeldPlans()) {
    Tell(node, PlanMessage(id_, *plan), now);
  }
}

// The lowest rank that is not known to be gone. Rank 0 writes without an order.
// If only the stream of its node is lost, two ranks may write the same weights,
// into two files.
int AttemptRun::WeightsRank() const {
  for (const NodeRun& node : nodes_) {
    if (IsGone(node.state) || !links_.IsConnected(node)) continue;
    for (int i = 0; i < node.share.num_ranks; ++i) {
      const int rank = node.share.first_rank + i;
      if (!ranks_.HasExited(rank)) return rank;
    }
  }
  return 0;
}

std::vector<std::string> AttemptRun::CheckTimes(absl::Duration now) {
  if (stopping()) return ending_.CheckTimes(now);
  const bool late = !start_.complete && now >= start_.deadline;
  if (late && !start_.begun) {
    start_.lost = absl::StrCat("not every node took its ranks within ",
                               absl::FormatDuration(spec_.timeouts.start));
  } else if (late) {
    ending_.AddCause(
        {"START_TIMEOUT",
         absl::StrCat("ranks ", absl::StrJoin(ranks_.RanksNotStarted(), ", "),
                      " did not reach the first gate within ",
                      absl::FormatDuration(spec_.timeouts.start))},
        now);
  }
  const absl::Duration limit = times_.step_deadline;
  if (start_.complete && stall_.Look(steps_, ranks_, now) >= limit &&
      limit > absl::ZeroDuration()) {
    ending_.AddCause(
        {"STEP_TIMEOUT",
         absl::StrCat("no report and no plan for ", absl::FormatDuration(limit),
                      " (the coordinator's --step-deadline): ",
                      DescribeStall(steps_, ranks_))},
        now);
  }
  for (const NodeRun& node : nodes_) {
    if (node.state != NodeState::kUnexplained || now < node.explain_until ||
        ranks_.ended_clean(node.name())) {
      continue;
    }
    ending_.AddCause(
        {"NODE_LOST",
         absl::StrCat("node ", node.name(),
                      ": its agent has no trainers of the job any more")},
        now);
  }
  return {};
}

AttemptAction AttemptRun::NextAction(absl::Duration now) const {
  using Action = AttemptAction;
  if (stopping()) return {AllGone(nodes_) ? Action::kFinish : Action::kNone};
  if (start_.lost) return {Action::kRequeue, {"START_LOST", *start_.lost}};
  if (!start_.complete && ranks_.all_started()) return {Action::kStarted};
  if (const FailureCause* const cause = ending_.DueCause(now)) {
    return {Action::kFail, *cause};
  }
  return {ranks_.all_ended_clean() ? Action::kSucceed : Action::kNone};
}

}  // namespace evenstep::coordinator
