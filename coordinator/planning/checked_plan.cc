#include "coordinator/planning/checked_plan.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "planner/costs/fits.h"
#include "planner/planner.h"
#include "wire/job_spec_proto.h"
#include "wire/step_plan.h"

namespace evenstep::coordinator {
namespace {

absl::StatusOr<v1::StepPlan> PlanAndCheck(const PlanWork& work,
                                          const PlannerFunctions& planner) {
  EVENSTEP_ASSIGN_OR_RETURN(const planner::Plan plan,
                            planner.make(work.request));
  EVENSTEP_RETURN_IF_ERROR(planner.check(work.request, plan));
  v1::StepPlan proto = wire::ToProto(
      wire::MakeStepPlan(work.request, plan, work.generation, work.step,
                         planner::PolicyName(work.request.options.policy)));
  *proto.mutable_costs() = wire::ToProto(work.request.time);
  for (const double speed : work.request.cluster.rank_speed) {
    proto.add_rank_speed(speed);
  }
  int64_t bytes = 0;
  double tokens = 0;
  double recomputed = 0;
  for (const planner::MicroBatch& micro_batch : plan.micro_batches) {
    const auto own = static_cast<double>(micro_batch.padded_tokens);
    bytes = std::max(bytes, micro_batch.predicted_bytes);
    tokens += own;
    recomputed += own * micro_batch.recompute_layers.total();
  }
  proto.set_predicted_activation_bytes(bytes);
  if (tokens > 0) {
    proto.set_recompute_ratio(recomputed / tokens /
                              work.request.model.layers().total());
  }
  return proto;
}

absl::StatusOr<v1::StepPlan> PlanOrStatic(const PlanWork& work,
                                          const PlannerFunctions& planner,
                                          absl::Status* refusal) {
  absl::StatusOr<v1::StepPlan> plan = PlanAndCheck(work, planner);
  if (plan.ok() || work.request.options.policy == planner::Policy::kStatic) {
    return plan;
  }
  PlanWork fallback = work;
  planner::Options& options = fallback.request.options;
  options.policy = planner::Policy::kStatic;
  // It does not choose: what holds most, holds all.
  options.recompute_layers = planner::RoomiestMode(work.request);
  absl::StatusOr<v1::StepPlan> other = PlanAndCheck(fallback, planner);
  if (!other.ok()) return plan;
  *refusal = plan.status();
  return other;
}

// The outcome is not ok. Stays so if no estimates help.
void UseEarlierEstimates(const PlanWork& work, const PlannerFunctions& planner,
                         PlanOutcome* outcome) {
  for (const Estimates& estimates : work.earlier) {
    PlanWork again = work;
    again.request.time = estimates.costs;
    again.request.cluster.rank_speed = estimates.rank_speeds;
    absl::StatusOr<v1::StepPlan> plan =
        PlanOrStatic(again, planner, &outcome->refusal);
    if (!plan.ok()) continue;
    outcome->estimate_refusal = outcome->plan.status();
    outcome->plan = std::move(plan);
    outcome->used = estimates;
    return;
  }
}

}  // namespace

PlannerFunctions RealPlanner() {
  return {planner::MakePlan, planner::CheckPlan};
}

PlanOutcome MakeCheckedPlan(const PlanWork& work,
                            const PlannerFunctions& planner,
                            const Clock& clock) {
  const absl::Duration begin = clock.Monotonic();
  PlanOutcome outcome;
  outcome.generation = work.generation;
  outcome.step = work.step;
  outcome.used = {work.request.time, work.request.cluster.rank_speed};
  outcome.plan = PlanOrStatic(work, planner, &outcome.refusal);
  // What does not fit does so at any cost.
  if (!outcome.plan.ok() &&
      !absl::IsFailedPrecondition(outcome.plan.status())) {
    UseEarlierEstimates(work, planner, &outcome);
  }
  outcome.duration = clock.Monotonic() - begin;
  return outcome;
}

}  // namespace evenstep::coordinator
