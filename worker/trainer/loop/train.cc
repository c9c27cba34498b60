#include "worker/trainer/loop/train.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/job/agreement.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/job/index_reporter.h"
#include "worker/trainer/job/job_data.h"
#include "worker/trainer/job/weights.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/loop/evaluator.h"
#include "worker/trainer/loop/step_loop.h"
#include "worker/trainer/loop/step_recorder.h"
#include "worker/trainer/profile/engine_costs.h"
#include "worker/trainer/profile/profile_key.h"

namespace evenstep::trainer {
namespace {

absl::StatusOr<JobData> OpenData(const TrainParts& parts) {
  IndexReporter reporter(parts.agent, parts.clock);
  EVENSTEP_ASSIGN_OR_RETURN(
      JobData data,
      OpenJobData(parts.setup, [&](const data::IndexProgress& progress) {
        return reporter.Report(progress);
      }));
  v1::ToAgent message;
  *message.mutable_data() = data.summary;
  EVENSTEP_RETURN_IF_ERROR(parts.agent->Send(message));
  return data;
}

// Weights come from the nodes' disks.
absl::Status CompareWeights(const TrainParts& parts, const Engine& engine) {
  const std::string& path = parts.setup.spec.model.weights;
  if (path.empty()) return absl::OkStatus();
  return WithReason(CheckSameOnAllRanks(engine.groups->world(),
                                        absl::StrCat("the weights of ", path),
                                        WeightsKey(engine.model->parameters())),
                    FailureReason::kStartFailed, kNoStep);
}

// All ranks measure together; rank 0's numbers are the job's. Costs of a
// profile are good only where they were measured.
absl::StatusOr<planner::TimeModel> MeasureCostsIfNotGiven(
    const TrainParts& parts, const Engine& engine) {
  const jobspec::JobSpec& spec = parts.setup.spec;
  if (!spec.profile.empty()) {
    EVENSTEP_RETURN_IF_ERROR(WithReason(
        CheckProfileKey(
            spec.profile,
            LocalProfileKey(spec, {parts.setup.device, parts.setup.threads,
                                   parts.setup.device_name})),
        FailureReason::kStartFailed, kNoStep));
  }
  if (spec.costs.has_value()) return *spec.costs;
  const absl::Duration begin = parts.clock->Monotonic();
  auto costs = MeasureEngineCosts(parts.setup, engine);
  if (!costs.ok()) {
    return WithReason(costs.status(), FailureReason::kStartFailed, kNoStep);
  }
  if (parts.setup.rank != 0) return costs;
  v1::ToAgent message;
  *message.mutable_costs() = wire::ToProto(*costs);
  Log(LogLevel::kInfo, "costs_measured",
      {{"seconds", absl::ToDoubleSeconds(parts.clock->Monotonic() - begin)},
       {"costs", message.costs().ShortDebugString()}});
  EVENSTEP_RETURN_IF_ERROR(parts.agent->Send(message));
  return costs;
}

// Absent: the job has no evaluation.
absl::StatusOr<std::optional<Evaluator>> PrepareEvaluation(
    const TrainParts& parts, const JobData& data,
    const planner::TimeModel& costs, Engine* engine) {
  if (!data.evaluation.has_value()) return std::nullopt;
  const auto set_timeout = [&parts](int64_t predicted_ns) {
    parts.factory->SetTimeout(
        CollectiveTimeout(parts.setup.spec.timeouts, predicted_ns));
  };
  EVENSTEP_ASSIGN_OR_RETURN(
      Evaluator evaluator,
      Evaluator::Create({&parts.setup, &*data.evaluation, engine, set_timeout},
                        costs));
  return evaluator;
}

// All parameters change through the keeper from now on.
void BeginKeeping(const TrainParts& parts, const Engine& engine) {
  parts.keeper->Begin(
      parts.setup, engine.model->parameters(),
      [agent = parts.agent](int64_t bytes) {
        v1::ToAgent message;
        message.mutable_writing_weights()->set_bytes_written(bytes);
        agent->Send(message).IgnoreError();  // it sees an end by itself
      });
}

// A run that was told to stop is not failed by weights that cannot be written.
absl::StatusOr<TrainResult> LeaveResults(const TrainParts& parts,
                                         const StepsDone& done) {
  TrainResult result;
  result.steps_done = done.committed;
  result.stopped = done.stopped;
  if (parts.setup.rank != 0) return result;
  result.weights = parts.keeper->Keep();
  if (!result.weights->ok() && !done.stopped) {
    return WithReason(result.weights->status(), FailureReason::kInternal,
                      done.committed - 1);
  }
  return result;
}

// All ranks fail together. Weights are written, and it is told, before any rank
// says why it fails, for that ends them all.
void LeaveTrained(const TrainParts& parts, const StepsDone& done) {
  if (parts.setup.rank != 0) return;
  v1::ToAgent message;
  message.mutable_finished()->set_steps_done(done.committed);
  FillWeights(parts.keeper->Keep(), message.mutable_finished());
  const absl::Status sent = parts.agent->Send(message);
  if (!sent.ok()) Log(LogLevel::kWarning, "not_told", {{"reason", sent}});
}

// How long a failed rank waits for its peers before it leaves them, if there is
// nothing to write.
constexpr absl::Duration kFailedLeaveTimeout = absl::Seconds(5);

// Keeps connections open until every rank has left its last collective. What
// was decided there stands whatever comes of it. Returns whether all have left.
bool LeaveTogether(const GroupTree& groups) {
  const absl::Status status = groups.world().Barrier();
  if (!status.ok()) Log(LogLevel::kDebug, "left_alone", {{"status", status}});
  return status.ok();
}

// Returns the failure. Peers wait for rank 0, which writes; if they lose it
// they may have to write themselves.
absl::Status LeaveFailed(const TrainParts& parts, const Engine& engine,
                         const StepsDone& done) {
  parts.factory->SetTimeout(parts.keeper->steps() > 0
                                ? SetUpTimeout(parts.setup.spec.timeouts)
                                : kFailedLeaveTimeout);
  LeaveTrained(parts, done);
  const bool all = LeaveTogether(*engine.groups);
  return all ? AgreedByAll(done.failure) : done.failure;
}

}  // namespace

absl::StatusOr<TrainResult> Train(const TrainParts& parts) {
  absl::StatusOr<JobData> opened = OpenData(parts);
  if (absl::IsCancelled(opened.status())) {
    TrainResult stopped;
    stopped.stopped = true;
    return stopped;
  }
  EVENSTEP_ASSIGN_OR_RETURN(const JobData data, std::move(opened));
  EVENSTEP_ASSIGN_OR_RETURN(*parts.groups,
                            BuildGroups(parts.setup, *parts.factory));
  parts.abort->Attach(*parts.groups);
  const auto detach = absl::MakeCleanup([&] { parts.abort->Detach(); });
  EVENSTEP_ASSIGN_OR_RETURN(Engine engine, MakeEngine(parts.setup, parts.faults,
                                                      parts.groups->get()));
  if (parts.setup.rank == 0) {
    EVENSTEP_RETURN_IF_ERROR(
        CheckRoomForWeights(parts.setup, engine.model->parameters()));
  }
  EVENSTEP_RETURN_IF_ERROR(CompareWeights(parts, engine));
  EVENSTEP_ASSIGN_OR_RETURN(const planner::TimeModel costs,
                            MeasureCostsIfNotGiven(parts, engine));
  EVENSTEP_ASSIGN_OR_RETURN(const std::optional<Evaluator> evaluator,
                            PrepareEvaluation(parts, data, costs, &engine));

  EVENSTEP_ASSIGN_OR_RETURN(
      StepRecorder recorder,
      StepRecorder::Create(parts.setup, parts.agent, parts.clock));
  BeginKeeping(parts, engine);
  StepLoop loop(&parts, &data.training, &engine, &recorder,
                evaluator.has_value() ? &*evaluator : nullptr);
  const absl::StatusOr<StepsDone> done = loop.Run();
  recorder.Finish();
  EVENSTEP_RETURN_IF_ERROR(done.status());
  if (!done->failure.ok()) return LeaveFailed(parts, engine, *done);
  LeaveTogether(*engine.groups);
  return LeaveResults(parts, *done);
}

}  // namespace evenstep::trainer
