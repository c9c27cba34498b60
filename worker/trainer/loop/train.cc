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
#include "worker/trainer/job/job_data.h"
#include "worker/trainer/job/load_weights.h"
#include "worker/trainer/job/weights.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/loop/collective_timeout.h"
#include "worker/trainer/loop/evaluator.h"
#include "worker/trainer/loop/step_loop.h"
#include "worker/trainer/loop/step_recorder.h"
#include "worker/trainer/profile/profile_key.h"

namespace evenstep::trainer {
namespace {

absl::StatusOr<JobData> OpenData(const TrainParts& parts) {
  EVENSTEP_ASSIGN_OR_RETURN(JobData data, OpenJobData(parts.setup));
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

// Whether the model is what Hugging Face calls so.
bool IsLlama(const jobspec::ModelSpec& model) {
  return !model.is_video() && model.name.empty() &&
         model.attention == jobspec::Attention::kCausal;
}

// Weights of a job that was stopped early are not written: they would look like
// the job's result.
absl::StatusOr<TrainResult> LeaveResults(const TrainParts& parts,
                                         const Engine& engine,
                                         const StepsDone& done) {
  TrainResult result;
  result.steps_done = done.committed;
  result.stopped = done.stopped;
  if (parts.setup.rank != 0 || done.stopped) return result;
  const std::string path =
      absl::StrCat(parts.setup.output_dir, "/", kWeightsName);
  absl::Status written = WriteWeights(
      path, parts.setup, engine.model->parameters(), done.committed);
  if (written.ok() && IsLlama(parts.setup.spec.model)) {
    written = WriteLlamaConfig(
        absl::StrCat(parts.setup.output_dir, "/", kConfigName), parts.setup);
  }
  if (!written.ok()) {
    return WithReason(written, FailureReason::kInternal, done.committed - 1);
  }
  result.weights_path = path;
  return result;
}

// All steps are done, and the evaluation after the last one has failed: what
// was trained is left all the same. It is told before any rank says why it
// fails, for that ends them all.
void LeaveTrained(const TrainParts& parts, const Engine& engine,
                  const StepsDone& done) {
  const auto left = LeaveResults(parts, engine, done);
  if (!left.ok()) {
    Log(LogLevel::kError, "weights_not_left", {{"reason", left.status()}});
    return;
  }
  if (parts.setup.rank != 0) return;
  v1::ToAgent message;
  message.mutable_finished()->set_steps_done(left->steps_done);
  message.mutable_finished()->set_weights_path(left->weights_path);
  Log(LogLevel::kWarning, "evaluation_failed_after_the_last_step",
      {{"steps", left->steps_done}, {"weights", left->weights_path}});
  const absl::Status sent = parts.agent->Send(message);
  if (!sent.ok()) Log(LogLevel::kWarning, "not_told", {{"reason", sent}});
}

// How long a failed rank waits for its peers before it leaves them.
constexpr absl::Duration kFailedLeaveTimeout = absl::Seconds(5);

// Keeps connections open until every rank has left its last collective. What
// was decided there stands whatever comes of it.
void LeaveTogether(const GroupTree& groups) {
  const absl::Status status = groups.world().Barrier();
  if (!status.ok()) Log(LogLevel::kDebug, "left_alone", {{"status", status}});
}

// Returns the failure.
absl::Status LeaveFailed(const TrainParts& parts, const Engine& engine,
                         const StepsDone& done, StepRecorder* recorder) {
  parts.factory->SetTimeout(kFailedLeaveTimeout);
  if (done.committed == parts.setup.spec.steps) {
    // Peers wait for rank 0, which writes.
    parts.factory->SetTimeout(SetUpTimeout(parts.setup.spec.timeouts));
    recorder->Finish();
    LeaveTrained(parts, engine, done);
  }
  LeaveTogether(*engine.groups);
  return done.failure;
}

}  // namespace

absl::StatusOr<TrainResult> Train(const TrainParts& parts) {
  EVENSTEP_ASSIGN_OR_RETURN(const JobData data, OpenData(parts));
  EVENSTEP_ASSIGN_OR_RETURN(*parts.groups,
                            BuildGroups(parts.setup, *parts.factory));
  parts.abort->Attach(*parts.groups);
  const auto detach = absl::MakeCleanup([&] { parts.abort->Detach(); });
  EVENSTEP_ASSIGN_OR_RETURN(Engine engine, MakeEngine(parts.setup, parts.faults,
                                                      parts.groups->get()));
  EVENSTEP_RETURN_IF_ERROR(CompareWeights(parts, engine));
  EVENSTEP_ASSIGN_OR_RETURN(const planner::TimeModel costs,
                            MeasureCostsIfNotGiven(parts, engine));
  EVENSTEP_ASSIGN_OR_RETURN(const std::optional<Evaluator> evaluator,
                            PrepareEvaluation(parts, data, costs, &engine));

  EVENSTEP_ASSIGN_OR_RETURN(
      StepRecorder recorder,
      StepRecorder::Create(parts.setup, parts.agent, parts.clock));
  StepLoop loop(&parts, &data.training, &engine, &recorder,
                evaluator.has_value() ? &*evaluator : nullptr);
  EVENSTEP_ASSIGN_OR_RETURN(const StepsDone done, loop.Run());
  if (!done.failure.ok()) return LeaveFailed(parts, engine, done, &recorder);
  LeaveTogether(*engine.groups);
  auto result = LeaveResults(parts, engine, done);
  recorder.Finish();
  return result;
}

}  // namespace evenstep::trainer
