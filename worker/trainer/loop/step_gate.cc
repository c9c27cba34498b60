#include "worker/trainer/loop/step_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {

StepGate::StepGate(Parts parts) : parts_(std::move(parts)) {}

void StepGate::Prepare(int64_t step) {
  if (plan_ != nullptr && plan_->step == step) return;
  plan_ = parts_.plans->Get(step);
  samples_.reset();
  if (plan_ != nullptr) samples_ = LoadSamples(*plan_);
}

absl::StatusOr<NextStep> StepGate::Pass(int64_t step, int64_t total_steps) {
  const absl::Duration entered = parts_.clock->Monotonic();
  auto result = parts_.gate.Pass([&] { return Vote(step, total_steps); });
  if (!result.ok()) {
    return WithReason(result.status(), FailureReason::kCollectiveFailed, step);
  }
  NextStep next;
  if (result->decision == GateDecision::kRun && step < total_steps) {
    EVENSTEP_RETURN_IF_ERROR(OpenGroups(*plan_, &next));
  }
  next.gate_ns = absl::ToInt64Nanoseconds(parts_.clock->Monotonic() - entered);
  if (!next.failure.ok()) return next;
  if (result->decision == GateDecision::kStop) return next;
  if (result->decision != GateDecision::kRun) {
    next.failure = FailureOf(*result, step);
    return next;
  }
  if (step == total_steps) return next;
  next.plan = std::exchange(plan_, nullptr);
  next.samples = **std::exchange(samples_, std::nullopt);
  next.plan_lead = static_cast<int>(parts_.plans->NewestRunnable(step) - step);
  return next;
}

absl::Status StepGate::OpenGroups(const wire::StepPlan& plan,
                                  NextStep* next) const {
  if (parts_.open_groups == nullptr) return absl::OkStatus();
  const absl::Status opened = parts_.open_groups(plan);
  if (!absl::IsInvalidArgument(opened)) {
    return WithReason(opened, FailureReason::kCollectiveFailed, plan.step);
  }
  next->failure = FailureError(FailureReason::kPlanMismatch, plan.step,
                               absl::StrCat("the plan of step ", plan.step,
                                            " cannot run: ", opened.message()));
  return absl::OkStatus();
}

GateVote StepGate::Vote(int64_t step, int64_t total_steps) {
  GateVote vote;
  vote.next_step = step;
  vote.newest_runnable = step;
  vote.stop_requested = parts_.agent->StopRequested();
  if (step == total_steps) return vote;

  Prepare(step);
  vote.newest_runnable = parts_.plans->NewestRunnable(step);
  vote.holds_plan = plan_ != nullptr;
  const absl::Status own = OwnFailure(step);
  if (!own.ok()) vote.failure = ReasonOf(own);
  if (!vote.holds_plan) {
    vote.newest_runnable = step - 1;
    return vote;
  }
  vote.digest = plan_->digest;
  return vote;
}

absl::Status StepGate::FailureOf(const GateResult& result, int64_t step) const {
  const absl::Status own = OwnFailure(step);
  if (!own.ok()) return own;
  if (result.decision == GateDecision::kPlanMismatch) {
    return FailureError(
        FailureReason::kPlanMismatch, step,
        absl::StrCat("ranks hold different plans of step ", step,
                     "; this one has digest ",
                     plan_ == nullptr
                         ? "none"
                         : absl::StrCat(absl::Hex(plan_->digest))));
  }
  return FailureError(FailureReason::kPeerFailed, step,
                      absl::StrCat("another rank cannot run step ", step, ": ",
                                   FailureReasonName(result.failure)));
}

absl::Status StepGate::OwnFailure(int64_t step) const {
  const absl::Status refusal = parts_.plans->refusal();
  if (!refusal.ok()) {
    return FailureError(FailureReason::kPlanMismatch, step, refusal.message());
  }
  if (samples_.has_value()) return samples_->status();
  return absl::OkStatus();
}

absl::StatusOr<SampleMap> StepGate::LoadSamples(
    const wire::StepPlan& plan) const {
  if (parts_.faults.Has(FaultKind::kDataError, plan.step)) {
    return FailureError(FailureReason::kDataError, plan.step,
                        "planted fault: samples cannot be read");
  }
  return parts_.data->Load(plan);
}

}  // namespace evenstep::trainer
