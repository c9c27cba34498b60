#include "coordinator/server/attempt_reports.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/text.h"
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

void LogStale(const std::string& node, const v1::AgentMessage& message) {
  const v1::AttemptId& id = AttemptOf(message);
  Log(LogLevel::kDebug, "stale_message",
      {{"node", node},
       {"kind", KindOf(message)},
       {"job", id.job_id()},
       {"attempt", id.attempt()},
       {"generation", id.generation()}});
}

void LogDrift(const AttemptRun& run, int64_t step, double drift) {
  const bool far = std::abs(drift) > kDriftBound;
  Log(far ? LogLevel::kWarning : LogLevel::kInfo,
      far ? "costs_drifted" : "costs_back",
      {{"job", run.id().job_id()},
       {"step", step},
       {"drift", absl::StrFormat("%+.3f", drift)},
       {"bound", kDriftBound},
       {"costs", wire::ToProto(*run.steps().costs()).ShortDebugString()}});
}

}  // namespace

absl::Status AttemptReports::Take(AttemptRun* run, const std::string& node,
                                  bool is_own,
                                  const v1::AgentMessage& message) {
  const MessageVerdict verdict =
      CheckAgentMessage(message, {node, run, is_own});
  switch (verdict.verdict) {
    case Verdict::kTake:
      TakeChecked(*run, *FindNode(run->nodes(), node), message);
      return absl::OkStatus();
    case Verdict::kRepeat:
      return absl::OkStatus();
    case Verdict::kStale:
      metrics_.CountStaleMessage(KindOf(message));
      LogStale(node, message);
      return absl::OkStatus();
    case Verdict::kRefuse:
    case Verdict::kFail:
      break;
  }
  metrics_.CountRefusedMessage(KindOf(message), verdict.reason);
  Log(LogLevel::kWarning, "message_refused",
      {{"node", node},
       {"kind", KindOf(message)},
       {"reason", verdict.reason},
       {"error", verdict.error}});
  if (verdict.verdict == Verdict::kFail) {
    run->ending().AddCause(
        {"INVALID_REPORT", std::string(verdict.error.message())}, Now());
  }
  return verdict.error;
}

void AttemptReports::TakeChecked(AttemptRun& run, NodeRun& node,
                                 const v1::AgentMessage& message) {
  if (message.has_ended()) return run.ConfirmEnd(node, Now());
  if (message.has_ready()) return run.TakeShare(node, Now());
  // Before the word to begin an agent can only take its share or refuse it.
  if (!message.has_abandon() || run.start().begun) {
    node.Apply(NodeEvent::kSpeak);
  }
  switch (message.what_case()) {
    case v1::AgentMessage::kLengths:
      return TakeLengths(run, message.lengths().report());
    case v1::AgentMessage::kStep:
      return TakeStep(run, message.step().report());
    case v1::AgentMessage::kCosts:
      return TakeCosts(run, message.costs().costs());
    case v1::AgentMessage::kData:
      return TakeData(run, message.data());
    case v1::AgentMessage::kStarted:
      return TakeStarted(run, message.started());
    case v1::AgentMessage::kAbandon:
      return TakeAbandon(run, node, message.abandon());
    case v1::AgentMessage::kExited:
      return TakeExit(run, node, message.exited());
    case v1::AgentMessage::kLogs:
      return TakeLogs(run, node, message.logs());
    default:
      return;  // a hello or heartbeat names no attempt
  }
}

void AttemptReports::TakeLengths(AttemptRun& run,
                                 const v1::LengthReport& report) {
  if (run.stopping()) return;
  const absl::Status status = run.steps().AddLengths(report);
  if (status.ok()) return;  // message_check.h has looked at it
  run.ending().AddCause({"INVALID_REPORT", std::string(status.message())},
                        Now());
}

void AttemptReports::TakePlan(AttemptRun& run, PlanOutcome outcome) {
  if (run.stopping()) return;
  const int64_t step = outcome.step;
  if (!outcome.refusal.ok()) {
    Log(LogLevel::kWarning, "plan_refused",
        {{"job", run.id().job_id()},
         {"step", step},
         {"error", outcome.refusal}});
  }
  if (!outcome.estimate_refusal.ok()) {
    CountRefusedEstimate(run, "plan", step, outcome.estimate_refusal);
  }
  const auto plan = run.steps().Accept(std::move(outcome));
  if (plan.ok()) return run.SendPlan(**plan, Now());
  const bool infeasible = absl::IsFailedPrecondition(plan.status());
  run.ending().AddCause(
      {infeasible ? "INFEASIBLE_PLAN" : "PLANNER_FAILED",
       absl::StrCat("step ", step, ": ", plan.status().message())},
      Now());
}

void AttemptReports::TakeStep(AttemptRun& run, const v1::StepReport& report) {
  const auto committed = run.steps().AddReport(report);
  if (!committed.ok()) {
    metrics_.CountRefusedMessage("step", "content");
    return run.ending().AddCause(
        {"REPORTS_DISAGREE", std::string(committed.status().message())}, Now());
  }
  if (committed->has_value()) AddStep(run, **committed);
}

void AttemptReports::AddStep(AttemptRun& run, const CommittedStep& step) {
  const int64_t number = step.summary.step();
  if (!step.refit_refusal.ok()) {
    CountRefusedEstimate(run, "refit", number, step.refit_refusal);
  }
  if (step.drift_news.has_value()) LogDrift(run, number, *step.drift_news);
  JobRecord& record = RecordOf(run);
  record.job.set_steps_done(std::max(record.job.steps_done(), number + 1));
  *record.job.mutable_totals() = step.totals;
  book_.AddStep(record, step.summary);
  metrics_.ObserveStep(record.job.job_id(), step.summary, record.job.totals());
}

// Costs and speeds are estimates: others take their place, and the job
// continues.
void AttemptReports::CountRefusedEstimate(const AttemptRun& run,
                                          absl::string_view source,
                                          int64_t step,
                                          const absl::Status& why) {
  metrics_.CountRefusedEstimate(source);
  Log(LogLevel::kWarning, "estimate_refused",
      {{"job", run.id().job_id()},
       {"source", source},
       {"step", step},
       {"error", why}});
}

void AttemptReports::TakeCosts(AttemptRun& run, const v1::CostModel& measured) {
  if (run.stopping()) return;
  auto costs = wire::FromProto(measured);
  if (!costs.ok()) {
    CountRefusedEstimate(run, "start", /*step=*/0, costs.status());
    costs = planner::NominalCosts(jobspec::ToModelShape(run.spec().model));
  }
  JobRecord& record = RecordOf(run);
  *record.job.mutable_costs() = wire::ToProto(*costs);
  book_.MarkChanged(record);
  run.steps().SetCosts(*costs);
}

void AttemptReports::TakeData(AttemptRun& run, const v1::RankData& message) {
  if (run.stopping()) return;
  if (message.data().bytes_to_index() > 0) {
    // It takes as long as the data is large: while it moves on, the start is
    // not late.
    run.start().deadline =
        std::max(run.start().deadline, Now() + run.spec().timeouts.start);
    if (!run.ranks().agreed_data()) ShowData(run, message.data());
    return;
  }
  const absl::Status status =
      run.ranks().AddData(message.rank(), message.data());
  if (!status.ok()) {
    return run.ending().AddCause(
        {"DATA_MISMATCH", std::string(status.message())}, Now());
  }
  const auto agreed = run.ranks().agreed_data();
  if (!agreed) return;
  ShowData(run, *agreed);
  run.steps().OpenForData();
}

void AttemptReports::ShowData(const AttemptRun& run,
                              const v1::DataSummary& data) {
  JobRecord& record = RecordOf(run);
  *record.job.mutable_data() = data;
  book_.MarkChanged(record);
}

void AttemptReports::TakeStarted(AttemptRun& run,
                                 const v1::RankStarted& message) {
  if (run.stopping()) return;
  run.ranks().MarkStarted(message.rank());
  if (message.emulated_link().empty()) return;
  JobRecord& record = RecordOf(run);
  record.job.set_emulated_link(message.emulated_link());
  book_.MarkChanged(record);
}

void AttemptReports::TakeAbandon(AttemptRun& run, const NodeRun& node,
                                 const v1::AbandonRequest& message) {
  // Nothing is wrong with a job that another agent can start.
  if (message.reason() == "AGENT_STOPPING" && !run.stopping() &&
      !run.start().complete) {
    run.start().lost = absl::StrCat("node ", node.name(), ": its agent stops");
    return;
  }
  v1::AbandonRequest request = message;
  request.set_message(wire::PersonText(request.message()));
  if (!run.ranks().HasRank(request.rank())) {
    request.set_message(
        absl::StrCat("node ", node.name(), ": ", request.message()));
  }
  run.ending().AddCause(run.ranks().AddAbandonRequest(request), Now());
}

void AttemptReports::TakeExit(AttemptRun& run, const NodeRun& node,
                              const v1::TrainerExited& message) {
  if (run.ranks().HasExited(message.rank())) return;  // a process ends once
  v1::TrainerExited exited = message;
  exited.set_message(wire::PersonText(exited.message()));
  const bool complete =
      run.ending().cancelled() || exited.steps_done() >= run.spec().steps;
  const auto cause = run.ranks().AddExit(exited, complete);
  if (cause) run.ending().AddCause(*cause, Now());
  run.ending().Hurry(Now());
  TakeWeights(run, node, exited);
}

// Where the attempt's weights are, or why it left none.
void AttemptReports::TakeWeights(const AttemptRun& run, const NodeRun& node,
                                 const v1::TrainerExited& exited) {
  JobRecord& record = RecordOf(run);
  if (!record.job.weights_path().empty()) return;
  if (!exited.weights_path().empty()) {
    record.job.set_weights_path(wire::PersonText(exited.weights_path()));
    record.job.set_weights_steps(exited.weights_steps());
    record.job.set_weights_node(node.name());
    record.job.set_weights_note(wire::PersonText(exited.weights_note()));
  } else if (!exited.weights_note().empty()) {
    record.job.set_weights_note(wire::PersonText(exited.weights_note()));
  } else {
    return;
  }
  book_.MarkChanged(record);
}

void AttemptReports::NoteLostWeights(const AttemptRun& run,
                                     const std::string& node) {
  JobRecord& record = RecordOf(run);
  if (!record.job.weights_path().empty() ||
      !record.job.weights_note().empty() || record.job.steps_done() == 0) {
    return;
  }
  record.job.set_weights_note(
      absl::StrCat("node ", node,
                   " was lost before it said whether it wrote them; look into "
                   "out/",
                   record.job.job_id(), " of its work folder"));
  book_.MarkChanged(record);
}

// How many of the lines are known already. Tells of lines that never came.
int64_t AttemptReports::TakeLineNumbers(const AttemptRun& run, NodeRun& node,
                                        const v1::LogBatch& message) {
  JobRecord& record = RecordOf(run);
  for (v1::Placement& placement : *record.job.mutable_placements()) {
    if (placement.node() != node.name() || message.first_line() == 0) continue;
    const int64_t last = message.first_line() + message.lines_size() - 1;
    const int64_t on_stream = std::exchange(node.last_log_line, last);
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
    line.set_attempt(run.id().attempt());
    line.set_text(absl::StrCat("[", lost, " lines of node ", node.name(),
                               " were lost on the way to the coordinator; they "
                               "are in the log files on the node]"));
    *line.mutable_time() = Timestamp(clock_.Wall());
    book_.AddLogLine(record, std::move(line));
  }
  return 0;
}

void AttemptReports::TakeLogs(const AttemptRun& run, NodeRun& node,
                              const v1::LogBatch& message) {
  JobRecord& record = RecordOf(run);
  int64_t skip = TakeLineNumbers(run, node, message);
  for (const v1::LogLine& from : message.lines()) {
    if (skip-- > 0) continue;
    v1::LogLine line;
    line.set_rank(from.rank());
    line.set_attempt(run.id().attempt());
    line.set_text(std::string(Utf8Prefix(from.text(), wire::kMaxLogLineBytes)));
    *line.mutable_time() =
        from.has_time() ? from.time() : Timestamp(clock_.Wall());
    book_.AddLogLine(record, std::move(line));
  }
}

}  // namespace evenstep::coordinator
