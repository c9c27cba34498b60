#include "worker/trainer/loop/train.h"

#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/loop/engine.h"
#include "worker/trainer/loop/failure.h"
#include "worker/trainer/loop/step_loop.h"
#include "worker/trainer/loop/step_recorder.h"
#include "worker/trainer/loop/training_data.h"
#include "worker/trainer/loop/weights.h"
#include "worker/trainer/profile/profile_key.h"

namespace evenstep::trainer {
namespace {

absl::StatusOr<TrainingData> OpenData(const TrainParts& parts) {
  EVENSTEP_ASSIGN_OR_RETURN(TrainingData data, TrainingData::Open(parts.setup));
  v1::ToAgent message;
  *message.mutable_data() = data.Summary();
  EVENSTEP_RETURN_IF_ERROR(parts.agent->Send(message));
  return data;
}

// All ranks measure together; rank 0's numbers are the job's. Costs of a
// profile are good only where they were measured.
absl::Status MeasureCostsIfNotGiven(const TrainParts& parts,
                                    const Engine& engine) {
  const jobspec::JobSpec& spec = parts.setup.spec;
  if (!spec.profile.empty()) {
    return WithReason(
        CheckProfileKey(
            spec.profile,
            LocalProfileKey(spec, {parts.setup.device, parts.setup.threads,
                                   parts.setup.device_name})),
        FailureReason::kStartFailed, kNoStep);
  }
  if (spec.costs.has_value()) return absl::OkStatus();
  const absl::Duration begin = parts.clock->Monotonic();
  auto costs = MeasureEngineCosts(parts.setup, engine);
  if (!costs.ok()) {
    return WithReason(costs.status(), FailureReason::kStartFailed, kNoStep);
  }
  if (parts.setup.rank != 0) return absl::OkStatus();
  v1::ToAgent message;
  *message.mutable_costs() = wire::ToProto(*costs);
  Log(LogLevel::kInfo, "costs_measured",
      {{"seconds", absl::ToDoubleSeconds(parts.clock->Monotonic() - begin)},
       {"costs", message.costs().ShortDebugString()}});
  return parts.agent->Send(message);
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
  const absl::Status written = WriteWeights(
      path, parts.setup, engine.model->parameters(), done.committed);
  if (!written.ok()) {
    return WithReason(written, FailureReason::kInternal, done.committed - 1);
  }
  result.weights_path = path;
  return result;
}

// How long a failed rank waits for its peers before it leaves them.
constexpr absl::Duration kFailedLeaveTimeout = absl::Seconds(5);

// Keeps connections open until every rank has left its last collective. What
// was decided there stands whatever comes of it.
void LeaveTogether(const GroupTree& groups) {
  const absl::Status status = groups.world().Barrier();
  if (!status.ok()) Log(LogLevel::kDebug, "left_alone", {{"status", status}});
}

}  // namespace

absl::StatusOr<TrainResult> Train(const TrainParts& parts) {
  EVENSTEP_ASSIGN_OR_RETURN(const TrainingData data, OpenData(parts));
  EVENSTEP_ASSIGN_OR_RETURN(*parts.groups,
                            BuildGroups(parts.setup, *parts.factory));
  parts.abort->Attach(*parts.groups);
  const auto detach = absl::MakeCleanup([&] { parts.abort->Detach(); });
  EVENSTEP_ASSIGN_OR_RETURN(Engine engine, MakeEngine(parts.setup, parts.faults,
                                                      parts.groups->get()));
  EVENSTEP_RETURN_IF_ERROR(MeasureCostsIfNotGiven(parts, engine));

  EVENSTEP_ASSIGN_OR_RETURN(
      StepRecorder recorder,
      StepRecorder::Create(parts.setup, parts.agent, parts.clock));
  StepLoop loop(&parts, &data, &engine, &recorder);
  EVENSTEP_ASSIGN_OR_RETURN(const StepsDone done, loop.Run());
  if (!done.failure.ok()) parts.factory->SetTimeout(kFailedLeaveTimeout);
  LeaveTogether(*engine.groups);
  EVENSTEP_RETURN_IF_ERROR(done.failure);
  auto result = LeaveResults(parts, engine, done);
  recorder.Finish();
  return result;
}

}  // namespace evenstep::trainer
