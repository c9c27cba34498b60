#include "worker/trainer/loop/step_loop.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/trainer/job/plan_needs.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/parallel/compute_timer.h"

namespace evenstep::trainer {
namespace {

// Samples that a message names; the rest is counted.
constexpr size_t kNamedSuspects = 16;

Gate MakeWorldGate(const TrainParts& parts, const Engine& engine) {
  Communicator& world = engine.groups->world();
  return Gate(
      [&world](absl::Span<int64_t> values) {
        return world.AllReduceMin(values);
      },
      parts.sleep);
}

}  // namespace

StepLoop::StepLoop(const TrainParts* parts, const TrainingData* data,
                   Engine* engine, StepRecorder* recorder,
                   const Evaluator* evaluator)
    : parts_(*parts),
      data_(*data),
      engine_(*engine),
      recorder_(*recorder),
      evaluator_(evaluator),
      gate_({MakeWorldGate(*parts, *engine), parts->plans, data, parts->agent,
             parts->clock, parts->faults,
             [groups = engine->groups](const wire::StepPlan& plan) {
               return OpenGroups(*groups, plan);
             }}),
      total_steps_(parts->setup.spec.steps) {}

absl::StatusOr<StepsDone> StepLoop::Run() {
  const int64_t look_ahead = parts_.setup.spec.look_ahead;
  EVENSTEP_RETURN_IF_ERROR(ReportLengthsUpTo(look_ahead - 1));
  absl::Status failure;  // of an evaluation
  for (int64_t step = 0;; ++step) {
    EVENSTEP_RETURN_IF_ERROR(ReportLengthsUpTo(step + look_ahead));
    EVENSTEP_ASSIGN_OR_RETURN(const NextStep next, PassGate(step));
    if (!next.failure.ok()) return StepsDone{step, false, next.failure};
    if (next.plan == nullptr) {
      return StepsDone{step, step < total_steps_, failure};
    }
    parts_.factory->SetTimeout(CollectiveTimeout(parts_.setup.spec.timeouts,
                                                 next.plan->predicted_step_ns));
    const absl::Status ran = RunStep(next);
    if (!ran.ok() && ReasonOf(ran) == FailureReason::kNotFinite) {
      return StepsDone{step, false, ran};
    }
    EVENSTEP_RETURN_IF_ERROR(ran);
    EVENSTEP_RETURN_IF_ERROR(EvaluateIfDue(step, &failure));
    // The last step stands all the same: the gate after it commits it.
    if (!failure.ok() && step + 1 < total_steps_) {
      return StepsDone{step, false, failure};
    }
    gate_.Prepare(step + 1);
  }
}

absl::Status StepLoop::ReportLengthsUpTo(int64_t last) {
  for (; next_lengths_ <= std::min(last, total_steps_ - 1); ++next_lengths_) {
    v1::ToAgent message;
    *message.mutable_lengths() = data_.Lengths(next_lengths_);
    EVENSTEP_RETURN_IF_ERROR(parts_.agent->Send(message));
  }
  return absl::OkStatus();
}

absl::StatusOr<NextStep> StepLoop::PassGate(int64_t step) {
  EVENSTEP_ASSIGN_OR_RETURN(NextStep next, gate_.Pass(step, total_steps_));
  EVENSTEP_RETURN_IF_ERROR(recorder_.GateExit(next.gate_ns, next.plan_lead));
  if (!next.failure.ok()) return next;
  parts_.plans->DropBefore(step);
  if (step == 0) {
    v1::ToAgent message;
    message.mutable_started()->set_emulated_link(parts_.setup.emulated_link);
    EVENSTEP_RETURN_IF_ERROR(parts_.agent->Send(message));
  }
  return next;
}

absl::Status StepLoop::RunStep(const NextStep& next) {
  const int64_t step = next.plan->step;
  parts_.faults.BeforeStep(step);
  EVENSTEP_ASSIGN_OR_RETURN(const StepResult result, RunPlan(next));
  if (result.not_finite > 0) {
    return NotFiniteError(
        *next.plan,
        absl::StrCat(result.not_finite, " values of loss and gradient are"),
        SuspectSamples(*next.plan, result, engine_.groups->world()));
  }

  const absl::Duration begin = parts_.clock->Monotonic();
  const ComputeTimer timer(engine_.runner->compute_clock(),
                           engine_.groups->world());
  int64_t compute_ns = 0;
  absl::StatusOr<UpdateResult> update = absl::UnknownError("not made");
  const absl::Status allowed = parts_.keeper->Change([&] {
    update = engine_.optimizer->Update(step);
    compute_ns = timer.ElapsedNs();  // waits for a device
    return WeightsKeeper::Parameters{
        .steps = update.ok() ? step + 1 : step,
        .whole = engine_.optimizer->parameters_whole()};
  });
  if (!allowed.ok()) {
    return WithReason(allowed, FailureReason::kCollectiveFailed, step);
  }
  if (absl::IsFailedPrecondition(update.status())) {
    // Every rank's own part was finite: the sum has overflowed, on all ranks.
    return NotFiniteError(*next.plan, "the norm of the summed gradient is",
                          AllSamples(*next.plan));
  }
  if (!update.ok()) {
    return WithReason(update.status(), ReasonOfEngineError(update.status()),
                      step);
  }
  recorder_.Ran(
      step, result, *update,
      {absl::ToInt64Nanoseconds(parts_.clock->Monotonic() - begin), compute_ns},
      engine_.groups->counters());
  return absl::OkStatus();
}

absl::Status StepLoop::EvaluateIfDue(int64_t step, absl::Status* failure) {
  if (evaluator_ == nullptr || !evaluator_->IsDue(step)) {
    return absl::OkStatus();
  }
  recorder_.EvaluationBegins();
  EVENSTEP_ASSIGN_OR_RETURN(const EvaluationResult result,
                            evaluator_->Run(step));
  if (result.failure.ok()) {
    recorder_.Evaluated(result.loss, result.trained_tokens,
                        engine_.groups->counters());
  }
  *failure = result.failure;
  return absl::OkStatus();
}

absl::StatusOr<StepResult> StepLoop::RunPlan(const NextStep& next) {
  const int64_t step = next.plan->step;
  if (engine_.planted != nullptr) {
    engine_.planted->set_armed(parts_.faults.Has(FaultKind::kNotFinite, step));
  }
  auto result = engine_.runner->Run(*next.plan, ReaderOf(next.samples));
  if (result.ok()) return result;
  return WithReason(result.status(), ReasonOfEngineError(result.status()),
                    step);
}

absl::Status StepLoop::NotFiniteError(
    const wire::StepPlan& plan, absl::string_view what,
    const std::vector<int64_t>& suspects) const {
  if (suspects.empty()) {
    return FailureError(FailureReason::kPeerFailed, plan.step,
                        absl::StrCat("step ", plan.step, ": ", what,
                                     " not finite, on another rank"));
  }
  std::string names;
  for (size_t i = 0; i < std::min(suspects.size(), kNamedSuspects); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", data_.Describe(suspects[i]));
  }
  if (suspects.size() > kNamedSuspects) {
    absl::StrAppend(&names, " and ", suspects.size() - kNamedSuspects, " more");
  }
  return FailureError(
      FailureReason::kNotFinite, plan.step,
      absl::StrCat(
          "step ", plan.step, ": ", what,
          " not finite; no rank has updated its parameters; suspects: ",
          names));
}

namespace {

// Samples of the micro-batches whose flag is set.
std::vector<int64_t> SamplesOf(const wire::StepPlan& plan,
                               absl::Span<const int64_t> flags) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    if (flags[i] == 0) continue;
    const std::vector<int64_t>& more = plan.micro_batches[i].sample_ids;
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

}  // namespace

std::vector<int64_t> SuspectSamples(const wire::StepPlan& plan,
                                    const StepResult& result,
                                    Communicator& world) {
  // By micro-batch: ranks with a bad loss, then ranks with a bad gradient only.
  const size_t count = plan.micro_batches.size();
  std::vector<int64_t> flags(2 * count, 0);
  for (const MicroBatchResult& micro_batch : result.micro_batches) {
    flags[micro_batch.index] = micro_batch.loss_not_finite ? 1 : 0;
    flags[count + micro_batch.index] = micro_batch.gradient_not_finite ? 1 : 0;
  }
  const absl::Status shared = world.AllReduceSum(absl::MakeSpan(flags));
  if (!shared.ok()) {
    Log(LogLevel::kWarning, "suspects_not_shared", {{"status", shared}});
  }
  const absl::Span<const int64_t> all = flags;
  for (const auto& part : {all.first(count), all.last(count)}) {
    std::vector<int64_t> suspects = SamplesOf(plan, part);
    if (!suspects.empty()) return suspects;
  }
  return shared.ok() ? AllSamples(plan) : std::vector<int64_t>();
}

std::vector<int64_t> AllSamples(const wire::StepPlan& plan) {
  return SamplesOf(plan, std::vector<int64_t>(plan.micro_batches.size(), 1));
}

}  // namespace evenstep::trainer
