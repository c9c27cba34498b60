#include "coordinator/steps/plan_work.h"

#include <algorithm>
#include <utility>

#include "planner/planner.h"
#include "wire/job_spec_proto.h"
#include "wire/step_plan.h"

namespace evenstep::coordinator {
namespace {

v1::StepPlan ToStepPlan(const planner::CheckedPlan& checked,
                        const PlanWork& work) {
  const planner::PlanRequest& request = checked.request;
  v1::StepPlan proto = wire::ToProto(
      wire::MakeStepPlan(request, checked.plan, work.generation, work.step,
                         planner::PolicyName(request.options.policy)));
  *proto.mutable_costs() = wire::ToProto(request.time);
  for (const double speed : request.cluster.rank_speed) {
    proto.add_rank_speed(speed);
  }
  int64_t bytes = 0;
  double tokens = 0;
  double recomputed = 0;
  for (const planner::MicroBatch& micro_batch : checked.plan.micro_batches) {
    const auto own = static_cast<double>(micro_batch.padded_tokens);
    bytes = std::max(bytes, micro_batch.predicted_bytes);
    tokens += own;
    recomputed += own * micro_batch.recompute_layers.total();
  }
  proto.set_predicted_activation_bytes(bytes);
  if (tokens > 0) {
    proto.set_recompute_ratio(recomputed / tokens /
                              request.model.layers().total());
  }
  return proto;
}

}  // namespace

PlanOutcome PlanStep(const PlanWork& work,
                     const planner::PlannerFunctions& planner,
                     const Clock& clock) {
  const absl::Duration begin = clock.Monotonic();
  PlanOutcome outcome;
  outcome.generation = work.generation;
  outcome.step = work.step;
  const auto checked =
      planner::MakeCheckedPlan(work.request, work.earlier, planner);
  if (checked.ok()) {
    outcome.plan = ToStepPlan(*checked, work);
    outcome.refusal = checked->refusal;
    outcome.estimate_refusal = checked->estimate_refusal;
    outcome.used = {checked->request.time, checked->request.cluster.rank_speed};
  } else {
    outcome.plan = checked.status();
  }
  outcome.duration = clock.Monotonic() - begin;
  return outcome;
}

}  // namespace evenstep::coordinator
