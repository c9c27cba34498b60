// What agents say of an attempt's ranks; the other half of AttemptSupervisor.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/utf8.h"
#include "coordinator/server/attempt_supervisor.h"
#include "google/protobuf/util/time_util.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

constexpr size_t kMaxLineBytes = 8 << 10;
constexpr size_t kMaxMessageBytes = 8 << 10;
// Computing that is further than this from the first costs is told once.
constexpr double kDriftBound = 0.25;

google::protobuf::Timestamp Timestamp(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(time));
}

std::string Bounded(const std::string& text) {
  return std::string(Utf8Prefix(text, kMaxMessageBytes));
}

}  // namespace

// The attempt that the message belongs to; nullptr, counted, if it is over or
// was never this node's.
AttemptSupervisor::Live* AttemptSupervisor::FindCurrent(
    const v1::AttemptId& id, const std::string& node, absl::string_view kind) {
  Live* const live = Find(id);
  if (live != nullptr && live->attempt.id().generation() == id.generation() &&
      IsOwn(*live, node)) {
    // Before the word to begin an agent can only take its share or refuse it.
    const bool is_answer =
        kind == "ready" || (kind == "abandon" && !live->begun);
    if (!is_answer) live->heard.insert(node);
    return live;
  }
  parts_.metrics.CountStaleMessage(kind);
  Log(LogLevel::kDebug, "stale_message",
      {{"node", node},
       {"kind", kind},
       {"job", id.job_id()},
       {"attempt", id.attempt()},
       {"generation", id.generation()}});
  return nullptr;
}

void AttemptSupervisor::OnMessage(const std::string& node,
                                  const v1::AgentMessage& message) {
  switch (message.what_case()) {
    case v1::AgentMessage::kReady:
      return OnReady(node, message.ready());
    case v1::AgentMessage::kLengths:
      return OnLengths(node, message.lengths());
    case v1::AgentMessage::kStep:
      return OnStep(node, message.step());
    case v1::AgentMessage::kCosts:
      return OnCosts(node, message.costs());
    case v1::AgentMessage::kData:
      return OnData(node, message.data());
    case v1::AgentMessage::kStarted:
      return OnStarted(node, message.started());
    case v1::AgentMessage::kAbandon:
      return OnAbandon(node, message.abandon());
    case v1::AgentMessage::kExited:
      return OnExited(node, message.exited());
    case v1::AgentMessage::kEnded:
      return OnEnded(node, message.ended());
    case v1::AgentMessage::kLogs:
      return OnLogs(node, message.logs());
    default:
      parts_.metrics.CountRefusedMessage("unknown");
  }
}

void AttemptSupervisor::OnLengths(const std::string& node,
                                  const v1::JobLengthReport& message) {
  Live* const live = FindCurrent(message.attempt(), node, "lengths");
  if (live == nullptr || live->stopping) return;
  const v1::LengthReport& report = message.report();
  if (report.generation() != live->attempt.id().generation()) {
    return parts_.metrics.CountStaleMessage("lengths");
  }
  absl::Status status = live->pipeline.AddLengths(report);
  if (status.ok() && live->attempt.NodeOf(report.rank()) != node) {
    status = absl::InvalidArgumentError(
        absl::StrCat("node ", node, " reports lengths of rank ", report.rank(),
                     ", which runs on ", live->attempt.NodeOf(report.rank())));
  }
  if (!status.ok()) {
    parts_.metrics.CountRefusedMessage("lengths");
    return AddCause(*live, {"INVALID_REPORT", std::string(status.message())});
  }
  PumpPlans(*live);
}

void AttemptSupervisor::PumpPlans(Live& live) {
  std::optional<PlanWork> work = live.pipeline.NextWork();
  if (!work) return;
  parts_.planners.Run([this, id = live.attempt.id(),
                       work = std::make_shared<PlanWork>(*std::move(work))] {
    auto outcome = std::make_shared<PlanOutcome>(
        MakeCheckedPlan(*work, parts_.planner, parts_.clock));
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
    live->totals.CountRefusedPlan();
    Log(LogLevel::kWarning, "plan_refused",
        {{"job", id.job_id()}, {"step", step}, {"error", outcome.refusal}});
  }
  const auto plan = live->pipeline.Accept(std::move(outcome));
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

void AttemptSupervisor::OnStep(const std::string& node,
                               const v1::JobStepReport& message) {
  Live* const live = FindCurrent(message.attempt(), node, "step");
  if (live == nullptr) return;
  const v1::StepReport& report = message.report();
  const v1::StepPlan* const plan = live->pipeline.Find(report.step());
  if (report.generation() != live->attempt.id().generation() ||
      plan == nullptr) {
    return parts_.metrics.CountStaleMessage("step");
  }
  absl::Status status = CheckStepReport(*plan, report);
  if (status.ok() && live->attempt.NodeOf(report.rank()) != node) {
    status = absl::InvalidArgumentError(
        absl::StrCat("node ", node, " reports a step of rank ", report.rank()));
  }
  if (!status.ok()) {
    parts_.metrics.CountRefusedMessage("step");
    return AddCause(*live, {"INVALID_REPORT", std::string(status.message())});
  }
  auto& reports = live->reports[report.step()];
  reports.try_emplace(report.rank(), report);
  if (static_cast<int>(reports.size()) == live->attempt.world()) {
    CommitStep(*live, report.step());
  }
}

void AttemptSupervisor::CommitStep(Live& live, int64_t step) {
  std::vector<v1::StepReport> reports;
  for (auto& [rank, report] : live.reports[step]) {
    reports.push_back(std::move(report));
  }
  live.reports.erase(step);
  const v1::StepPlan plan = *live.pipeline.Find(step);
  const auto figures = SummariseStep(plan, reports);
  live.pipeline.Forget(step);
  if (!figures.ok()) {
    parts_.metrics.CountRefusedMessage("step");
    return AddCause(
        live, {"REPORTS_DISAGREE", std::string(figures.status().message())});
  }
  live.totals.Add(*figures);
  RefitCosts(live, plan, reports);
  JobRecord& record = RecordOf(live);
  record.job.set_steps_done(std::max(record.job.steps_done(), step + 1));
  *record.job.mutable_totals() = live.totals.ToProto();
  parts_.book.AddStep(record, figures->summary);
  parts_.metrics.ObserveStep(record.job.job_id(), figures->summary,
                             record.job.totals());
}

// Steps whose planning begins from now on are planned with what was learned.
void AttemptSupervisor::RefitCosts(Live& live, const v1::StepPlan& plan,
                                   const std::vector<v1::StepReport>& reports) {
  if (!live.spec.refit || !live.pipeline.costs().has_value()) return;
  if (!live.refit.has_value()) {
    live.refit.emplace(*live.pipeline.costs(),
                       jobspec::ToModelShape(live.spec.model),
                       live.attempt.world());
  }
  live.refit->Observe(plan, reports);
  live.pipeline.SetCosts(live.refit->costs());
  live.pipeline.SetRankSpeeds(live.refit->RankSpeeds());
  const double drift = live.refit->drift();
  live.totals.SetCostDrift(drift);
  const bool far = std::abs(drift) > kDriftBound;
  if (far == live.drift_told) return;
  live.drift_told = far;
  Log(far ? LogLevel::kWarning : LogLevel::kInfo,
      far ? "costs_drifted" : "costs_back",
      {{"job", live.attempt.id().job_id()},
       {"step", plan.step()},
       {"drift", absl::StrFormat("%+.3f", drift)},
       {"bound", kDriftBound},
       {"costs", wire::ToProto(live.refit->costs()).ShortDebugString()}});
}

void AttemptSupervisor::OnCosts(const std::string& node,
                                const v1::MeasuredCosts& message) {
  Live* const live = FindCurrent(message.attempt(), node, "costs");
  if (live == nullptr || live->stopping || live->costs.has_costs()) return;
  const auto costs = wire::FromProto(message.costs());
  if (!costs.ok() || live->attempt.NodeOf(0) != node) {
    parts_.metrics.CountRefusedMessage("costs");
    return AddCause(*live,
                    {"INVALID_REPORT",
                     absl::StrCat("measured costs of node ", node, ": ",
                                  costs.ok() ? "it does not run rank 0"
                                             : costs.status().message())});
  }
  JobRecord& record = RecordOf(*live);
  *record.job.mutable_costs() = message.costs();
  parts_.book.MarkChanged(record);
  live->pipeline.SetCosts(*costs);
  *live->costs.mutable_costs()->mutable_attempt() = live->attempt.id();
  *live->costs.mutable_costs()->mutable_costs() = message.costs();
  SendToAll(*live, live->costs);
  PumpPlans(*live);
}

void AttemptSupervisor::OnData(const std::string& node,
                               const v1::RankData& message) {
  Live* const live = FindCurrent(message.attempt(), node, "data");
  if (live == nullptr || live->stopping) return;
  if (!live->attempt.HasRank(message.rank())) {
    return parts_.metrics.CountRefusedMessage("data");
  }
  const absl::Status status =
      live->attempt.AddData(message.rank(), message.data());
  if (!status.ok()) {
    return AddCause(*live, {"DATA_MISMATCH", std::string(status.message())});
  }
  const auto agreed = live->attempt.agreed_data();
  if (!agreed) return;
  JobRecord& record = RecordOf(*live);
  *record.job.mutable_data() = *agreed;
  parts_.book.MarkChanged(record);
  live->pipeline.OpenForData();
  PumpPlans(*live);
}

void AttemptSupervisor::OnStarted(const std::string& node,
                                  const v1::RankStarted& message) {
  Live* const live = FindCurrent(message.attempt(), node, "started");
  if (live == nullptr || live->stopping) return;
  if (!live->attempt.HasRank(message.rank())) {
    return parts_.metrics.CountRefusedMessage("started");
  }
  live->attempt.MarkStarted(message.rank());
  JobRecord& record = RecordOf(*live);
  if (!message.emulated_link().empty()) {
    record.job.set_emulated_link(message.emulated_link());
    parts_.book.MarkChanged(record);
  }
  if (!live->attempt.all_started() ||
      record.status.state != JobState::kStarting) {
    return;
  }
  const absl::Status moved = parts_.book.Move(
      record, {JobAction::kStart, JobState::kQueued, "ALL_RANKS_STARTED",
               absl::StrCat("all of ", Counted(live->attempt.world(), "rank"),
                            " passed the first gate")});
  lost_starts_.erase(record.job.job_id());
  if (!moved.ok()) Log(LogLevel::kError, "move_refused", {{"error", moved}});
}

void AttemptSupervisor::OnAbandon(const std::string& node,
                                  const v1::AbandonRequest& message) {
  Live* const live = FindCurrent(message.attempt(), node, "abandon");
  if (live == nullptr) return;
  // Nothing is wrong with a job that another agent can start.
  if (message.reason() == "AGENT_STOPPING" && !live->stopping &&
      RecordOf(*live).status.state == JobState::kStarting) {
    return PutBack(*live, absl::StrCat("node ", node, ": its agent stops"));
  }
  v1::AbandonRequest request = message;
  request.set_message(Bounded(request.message()));
  if (!live->attempt.HasRank(request.rank())) {
    request.set_message(absl::StrCat("node ", node, ": ", request.message()));
  }
  live->attempt.AddAbandonRequest(request, Now());
  EndIfDue(*live);
}

void AttemptSupervisor::OnExited(const std::string& node,
                                 const v1::TrainerExited& message) {
  Live* const live = FindCurrent(message.attempt(), node, "exited");
  if (live == nullptr) return;
  if (!live->attempt.HasRank(message.rank())) {
    return parts_.metrics.CountRefusedMessage("exited");
  }
  v1::TrainerExited exited = message;
  exited.set_message(Bounded(exited.message()));
  const bool complete =
      live->cancelled || exited.steps_done() >= live->spec.steps;
  live->attempt.AddExit(exited, complete, Now());
  if (!exited.weights_path().empty()) {
    JobRecord& record = RecordOf(*live);
    record.job.set_weights_path(exited.weights_path());
    parts_.book.MarkChanged(record);
  }
  EndIfDue(*live);
  if (!live->stopping && live->attempt.all_ended_clean()) Succeed(*live);
}

void AttemptSupervisor::OnEnded(const std::string& node,
                                const v1::AttemptEnded& message) {
  Live* const live = Find(message.attempt());
  if (live == nullptr || !IsOwn(*live, node)) return;
  live->gone_at.erase(node);
  live->attempt.MarkGone(node);
  if (!live->stopping && !live->attempt.ended_clean(node)) {
    AddCause(*live, {"INTERNAL",
                     absl::StrCat("node ", node,
                                  " ended its trainers without saying why"),
                     CauseStrength::kLikely});
  }
  FinishIfGone(message.attempt().job_id());
}

// How many of the lines are known already. Tells of lines that never came.
int64_t AttemptSupervisor::TakeLineNumbers(Live& live, const std::string& node,
                                           const v1::LogBatch& message) {
  JobRecord& record = RecordOf(live);
  for (v1::Placement& placement : *record.job.mutable_placements()) {
    if (placement.node() != node || message.first_line() == 0) continue;
    const int64_t known = placement.log_lines();
    const int64_t lost = message.first_line() - known - 1;
    placement.set_log_lines(
        std::max(known, message.first_line() + message.lines_size() - 1));
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

void AttemptSupervisor::OnLogs(const std::string& node,
                               const v1::LogBatch& message) {
  Live* const live = FindCurrent(message.attempt(), node, "logs");
  if (live == nullptr) return;
  JobRecord& record = RecordOf(*live);
  int64_t skip = TakeLineNumbers(*live, node, message);
  for (v1::LogLine line : message.lines()) {
    if (skip-- > 0) continue;
    if (line.text().size() > kMaxLineBytes) {
      line.set_text(std::string(Utf8Prefix(line.text(), kMaxLineBytes)));
    }
    if (!line.has_time()) {
      *line.mutable_time() = Timestamp(parts_.clock.Wall());
    }
    line.set_attempt(live->attempt.id().attempt());
    parts_.book.AddLogLine(record, std::move(line));
  }
}

}  // namespace evenstep::coordinator
