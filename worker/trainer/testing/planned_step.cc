#include "worker/trainer/testing/planned_step.h"

#include <utility>

#include "base/status_macros.h"
#include "planner/planner.h"
#include "wire/step_plan.h"

namespace evenstep::trainer::testing {

absl::StatusOr<std::vector<TestMicroBatch>> PlannedStep(
    const planner::PlanRequest& request) {
  EVENSTEP_ASSIGN_OR_RETURN(const planner::Plan plan,
                            planner::MakePlan(request));
  EVENSTEP_ASSIGN_OR_RETURN(const wire::StepPlan sent,
                            wire::FromProto(wire::ToProto(wire::MakeStepPlan(
                                request, plan, /*generation=*/1, /*step=*/0,
                                planner::PolicyName(request.options.policy)))));
  std::vector<TestMicroBatch> step;
  for (const wire::PlannedMicroBatch& planned : sent.micro_batches) {
    TestMicroBatch micro_batch;
    micro_batch.first_rank = planned.first_rank;
    micro_batch.degree = planned.degree;
    micro_batch.ulysses_degree = planned.ulysses_degree;
    micro_batch.sp_mode = planned.sp_mode;
    micro_batch.shapes = planned.shapes;
    if (planned.shapes.empty()) micro_batch.lengths = planned.lengths;
    micro_batch.recompute_layers = planned.recompute_layers;
    micro_batch.recompute_temporal_layers = planned.recompute_temporal_layers;
    step.push_back(std::move(micro_batch));
  }
  return step;
}

}  // namespace evenstep::trainer::testing
