// What agents say of an attempt's ranks; a quarter of AttemptSupervisor.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/text.h"
#include "coordinator/server/attempt_supervisor.h"
#include "coordinator/server/message_check.h"
#include "google/protobuf/util/time_util.h"
#include "planner/costs/cost_limits.h"
#include "wire/job_spec_proto.h"
#include "wire/message_bounds.h"

namespace evenstep::coordinator {
namespace {

google::protobuf::Timestamp Timestamp(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(time));
}

}  // namespace

absl::Status AttemptSupervisor::OnMessage(const std::string& node,
                                          const v1::AgentMessage& message) {
  const v1::AttemptId& id = AttemptOf(message);
  if (message.has_ended()) parts_.nodes.RemoveLeftover(node, id);
  Live* const live = Find(id);
  const MessageVerdict verdict = CheckAgentMessage(
      message, {node, live, live != nullptr && IsOwn(*live, node)});
  switch (verdict.verdict) {
    case Verdict::kTake:
      Handle(*live, node, message);
      return absl::OkStatus();
    case Verdict::kRepeat:
      return absl::OkStatus();
    case Verdict::kStale:
      parts_.metrics.CountStaleMessage(KindOf(message));
      Log(LogLevel::kDebug, "stale_message",
          {{"node", node},
           {"kind", KindOf(message)},
           {"job", id.job_id()},
           {"attempt", id.attempt()},
           {"generation", id.generation()}});
      return absl::OkStatus();
    case Verdict::kRefuse:
    case Verdict::kFail:
      break;
  }
  parts_.metrics.CountRefusedMessage(KindOf(message), verdict.reason);
  Log(LogLevel::kWarning, "message_refused",
      {{"node", node},
       {"kind", KindOf(message)},
       {"reason", verdict.reason},
       {"error", verdict.error}});
  if (verdict.verdict == Verdict::kFail) {
    AddCause(*live, {"INVALID_REPORT", std::string(verdict.error.message())});
  }
  return verdict.error;
}

void AttemptSupervisor::Handle(Live& live, const std::string& node,
                               const v1::AgentMessage& message) {
  if (message.has_ended()) return OnEnded(live, node);
  if (message.has_ready()) return MarkReady(live, node);
  // Before the word to begin an agent can only take its share or refuse it.
  if (!message.has_abandon() || live.begun) live.heard.insert(node);
  switch (message.what_case()) {
    case v1::AgentMessage::kLengths:
      return OnLengths(live, message.lengths().report());
    case v1::AgentMessage::kStep:
      return OnStep(live, message.step().report());
    case v1::AgentMessage::kCosts:
      return OnCosts(live, message.costs().costs());
    case v1::AgentMessage::kData:
      return OnData(live, message.data());
    case v1::AgentMessage::kStarted:
      return OnStarted(live, message.started());
    case v1::AgentMessage::kAbandon:
      return OnAbandon(live, node, message.abandon());
    case v1::AgentMessage::kExited:
      return OnExited(live, node, message.exited());
    case v1::AgentMessage::kLogs:
      return OnLogs(live, node, message.logs());
    default:
      return;  // a hello or heartbeat names no attempt
  }
}

void AttemptSupervisor::OnLengths(Live& live, const v1::LengthReport& report) {
  if (live.stopping) return;
  const absl::Status status = live.steps.AddLengths(report);
  if (!status.ok()) {  // message_check.h has looked at it
    return AddCause(live, {"INVALID_REPORT", std::string(status.message())});
  }
  PumpPlans(live);
}

void AttemptSupervisor::PumpPlans(Live& live) {
  if (live.stopping) return;
  std::optional<PlanWork> work = live.steps.NextWork();
  if (!work) return;
  parts_.planners.Run([this, id = live.attempt.id(),
                       work = std::make_shared<PlanWork>(*std::move(work))] {
    auto outcome = std::make_shared<PlanOutcome>(
        PlanStep(*work, parts_.planner, parts_.clock));
    parts_.post([this, id, outcome] { OnPlanned(id, std::move(*outcome)); });
  });
}

void AttemptSupervisor::OnPlanned(const v1::AttemptId& id,
                                  PlanOutcome outcome) {
  parts_.metrics.ObservePlan(outcome);
  Live* const live = Find(id);
  if (live == nullptr || live->stopping) return;
  const int64_t step = outcome.step;
  if (!outcome.refusal.ok()) {
    Log(LogLevel::kWarning, "plan_refused",
        {{"job", id.job_id()}, {"step", step}, {"error", outcome.refusal}});
  }
  if (!outcome.estimate_refusal.ok()) {
    CountRefusedEstimate(*live, "plan", step, outcome.estimate_refusal);
  }
  const auto plan = live->steps.Accept(std::move(outcome));
  if (!plan.ok()) {
    const bool infeasible = absl::IsFailedPrecondition(plan.status());
    return AddCause(
        *live, {infeasible ? "INFEASIBLE_PLAN" : "PLANNER_FAILED",
                absl::StrCat("step ", step, ": ", plan.status().message())});
  }
  v1::CoordinatorMessage message;
  *message.mutable_plan()->mutable_attempt() = id;
  *message.mutable_plan()->mutable_plan() = **plan;
  SendToAll(*live, message);
  PumpPlans(*live);
}

void AttemptSupervisor::OnStep(Live& live, const v1::StepReport& report) {
  const auto committed = live.steps.AddReport(report);
  if (!committed.ok()) {
    parts_.metrics.CountRefusedMessage("step", "content");
    return AddCause(
        live, {"REPORTS_DISAGREE", std::string(committed.status().message())});
  }
  if (!committed->has_value()) return;
  OnCommitted(live, **committed);
  PumpPlans(live);  // it may wait for this commit
}

void AttemptSupervisor::OnCommitted(Live& live, const CommittedStep& step) {
  const int64_t number = step.summary.step();
  if (!step.refit_refusal.ok()) {
    CountRefusedEstimate(live, "refit", number, step.refit_refusal);
  }
  if (step.drift_news.has_value()) LogDrift(live, number, *step.drift_news);
  JobRecord& record = RecordOf(live);
  record.job.set_steps_done(std::max(record.job.steps_done(), number + 1));
  *record.job.mutable_totals() = step.totals;
  parts_.book.AddStep(record, step.summary);
  parts_.metrics.ObserveStep(record.job.job_id(), step.summary,
                             record.job.totals());
}

void AttemptSupervisor::LogDrift(const Live& live, int64_t step, double drift) {
  const bool far = std::abs(drift) > kDriftBound;
  Log(far ? LogLevel::kWarning : LogLevel::kInfo,
      far ? "costs_drifted" : "costs_back",
      {{"job", live.attempt.id().job_id()},
       {"step", step},
       {"drift", absl::StrFormat("%+.3f", drift)},
       {"bound", kDriftBound},
       {"costs", wire::ToProto(*live.steps.costs()).ShortDebugString()}});
}

// Costs and speeds are estimates: others take their place, and the job goes on.
void AttemptSupervisor::CountRefusedEstimate(const Live& live,
                                             absl::string_view source,
                                             int64_t step,
                                             const absl::Status& why) {
  parts_.metrics.CountRefusedEstimate(source);
  Log(LogLevel::kWarning, "estimate_refused",
      {{"job", live.attempt.id().job_id()},
       {"source", source},
       {"step", step},
       {"error", why}});
}

void AttemptSupervisor::OnCosts(Live& live, const v1::CostModel& measured) {
  if (live.stopping) return;
  auto costs = wire::FromProto(measured);
  if (!costs.ok()) {
    CountRefusedEstimate(live, "start", /*step=*/0, costs.status());
    costs = planner::NominalCosts(jobspec::ToModelShape(live.spec.model));
  }
  const v1::CostModel proto = wire::ToProto(*costs);
  JobRecord& record = RecordOf(live);
  *record.job.mutable_costs() = proto;
  parts_.book.MarkChanged(record);
  live.steps.SetCosts(*costs);
  PumpPlans(live);
}

void AttemptSupervisor::OnData(Live& live, const v1::RankData& message) {
  if (live.stopping) return;
  if (message.data().bytes_to_index() > 0) return OnIndexing(live, message);
  const absl::Status status =
      live.attempt.AddData(message.rank(), message.data());
  if (!status.ok()) {
    return AddCause(live, {"DATA_MISMATCH", std::string(status.message())});
  }
  const auto agreed = live.attempt.agreed_data();
  if (!agreed) return;
  JobRecord& record = RecordOf(live);
  *record.job.mutable_data() = *agreed;
  parts_.book.MarkChanged(record);
  live.steps.OpenForData();
  PumpPlans(live);
}

// Indexing takes as long as the data is large: while it moves on, the job does
// not miss its start deadline.
void AttemptSupervisor::OnIndexing(Live& live, const v1::RankData& message) {
  live.start_deadline =
      std::max(live.start_deadline, Now() + live.spec.timeouts.start);
  if (live.attempt.agreed_data()) return;
  JobRecord& record = RecordOf(live);
  *record.job.mutable_data() = message.data();
  parts_.book.MarkChanged(record);
}

void AttemptSupervisor::OnStarted(Live& live, const v1::RankStarted& message) {
  if (live.stopping) return;
  live.attempt.MarkStarted(message.rank());
  JobRecord& record = RecordOf(live);
  if (!message.emulated_link().empty()) {
    record.job.set_emulated_link(message.emulated_link());
    parts_.book.MarkChanged(record);
  }
  if (!live.attempt.all_started() ||
      record.status.state != JobState::kStarting) {
    return;
  }
  const absl::Status moved = parts_.book.Move(
      record, {JobAction::kStart, JobState::kQueued, "ALL_RANKS_STARTED",
               absl::StrCat("all of ", Counted(live.attempt.world(), "rank"),
                            " passed the first gate")});
  lost_starts_.erase(record.job.job_id());
  if (!moved.ok()) Log(LogLevel::kError, "move_refused", {{"error", moved}});
}

void AttemptSupervisor::OnAbandon(Live& live, const std::string& node,
                                  const v1::AbandonRequest& message) {
  // Nothing is wrong with a job that another agent can start.
  if (message.reason() == "AGENT_STOPPING" && !live.stopping &&
      RecordOf(live).status.state == JobState::kStarting) {
    return PutBack(live, absl::StrCat("node ", node, ": its agent stops"));
  }
  v1::AbandonRequest request = message;
  request.set_message(wire::PersonText(request.message()));
  if (!live.attempt.HasRank(request.rank())) {
    request.set_message(absl::StrCat("node ", node, ": ", request.message()));
  }
  live.attempt.AddAbandonRequest(request, Now());
  EndIfDue(live);
}

void AttemptSupervisor::OnExited(Live& live, const std::string& node,
                                 const v1::TrainerExited& message) {
  v1::TrainerExited exited = message;
  exited.set_message(wire::PersonText(exited.message()));
  const bool complete =
      live.cancelled || exited.steps_done() >= live.spec.steps;
  if (!live.attempt.AddExit(exited, complete, Now())) return;
  TakeWeights(live, node, exited);
  EndIfDue(live);
  if (!live.stopping && live.attempt.all_ended_clean()) Succeed(live);
}

void AttemptSupervisor::OnEnded(Live& live, const std::string& node) {
  live.lost_at.erase(node);
  live.attempt.MarkGone(node);
  if (!live.stopping && !live.attempt.ended_clean(node)) {
    AddCause(live, {"INTERNAL",
                    absl::StrCat("node ", node,
                                 " ended its trainers without saying why"),
                    CauseStrength::kLikely});
  }
  FinishIfGone(live.attempt.id().job_id());
}

// How many of the lines are known already. Tells of lines that never came.
int64_t AttemptSupervisor::TakeLineNumbers(Live& live, const std::string& node,
                                           const v1::LogBatch& message) {
  JobRecord& record = RecordOf(live);
  for (v1::Placement& placement : *record.job.mutable_placements()) {
    if (placement.node() != node || message.first_line() == 0) continue;
    const int64_t last = message.first_line() + message.lines_size() - 1;
    const int64_t on_stream = std::exchange(live.log_numbers[node], last);
    const int64_t known = placement.log_lines();
    const int64_t lost = message.first_line() - known - 1;
    // Lines come again on another stream only, and as many as an agent keeps.
    // Otherwise these numbers or those before them are wrong, and no line is
    // thrown away for a wrong number.
    const bool numbers_broken =
        message.first_line() <= on_stream || -lost > kMaxRepeatedLogLines;
    placement.set_log_lines(numbers_broken ? last : std::max(known, last));
    if (numbers_broken) return 0;
    if (lost <= 0) return -lost;
    v1::LogLine line;
    line.set_rank(placement.first_rank());
    line.set_attempt(live.attempt.id().attempt());
    line.set_text(absl::StrCat("[", lost, " lines of node ", node,
                               " were lost on the way to the coordinator; they "
                               "are in the log files on the node]"));
    *line.mutable_time() = Timestamp(parts_.clock.Wall());
    parts_.book.AddLogLine(record, std::move(line));
  }
  return 0;
}

void AttemptSupervisor::OnLogs(Live& live, const std::string& node,
                               const v1::LogBatch& message) {
  JobRecord& record = RecordOf(live);
  int64_t skip = TakeLineNumbers(live, node, message);
  for (const v1::LogLine& from : message.lines()) {
    if (skip-- > 0) continue;
    v1::LogLine line;
    line.set_rank(from.rank());
    line.set_attempt(live.attempt.id().attempt());
    line.set_text(std::string(Utf8Prefix(from.text(), wire::kMaxLogLineBytes)));
    *line.mutable_time() =
        from.has_time() ? from.time() : Timestamp(parts_.clock.Wall());
    parts_.book.AddLogLine(record, std::move(line));
  }
}

}  // namespace evenstep::coordinator
