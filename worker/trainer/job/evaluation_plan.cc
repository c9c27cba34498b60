#include "worker/trainer/job/evaluation_plan.h"

#include <algorithm>

#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "jobspec/job_spec.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/fits.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::trainer {
namespace {

// With fewer, one long sample leaves the others' ranks idle.
constexpr int64_t kSamplesPerRank = 16;

// At most what a step may hold.
int64_t SamplesPerPlan(const TrainerSetup& setup) {
  const int64_t most =
      std::min(planner::kMaxSamples,
               planner::kMaxTotalTokens / setup.spec.data.max_length);
  return std::max(setup.spec.batch_samples,
                  std::min(kSamplesPerRank * setup.world, most));
}

planner::PlanRequest RequestOf(const TrainerSetup& setup,
                               const planner::TimeModel& costs) {
  planner::PlanRequest request = jobspec::ToPlanRequest(setup.spec);
  request.time = costs;
  request.cluster.ranks_per_node = setup.ranks_per_node;
  if (setup.ranks_per_node.empty()) {
    request.cluster.ranks_per_node = {setup.world};
  }
  return request;
}

absl::StatusOr<planner::Plan> CheckedPlan(const planner::PlanRequest& request) {
  EVENSTEP_ASSIGN_OR_RETURN(planner::Plan plan, planner::MakePlan(request));
  EVENSTEP_RETURN_IF_ERROR(planner::CheckPlan(request, plan));
  return plan;
}

absl::StatusOr<planner::Plan> PlanOrStatic(planner::PlanRequest* request) {
  absl::StatusOr<planner::Plan> plan = CheckedPlan(*request);
  if (plan.ok() || request->options.policy == planner::Policy::kStatic) {
    return plan;
  }
  request->options.recompute_layers = planner::RoomiestMode(*request);
  request->options.policy = planner::Policy::kStatic;
  absl::StatusOr<planner::Plan> other = CheckedPlan(*request);
  return other.ok() ? other : plan;
}

}  // namespace

absl::StatusOr<std::vector<wire::StepPlan>> PlanEvaluation(
    const TrainerSetup& setup, const planner::TimeModel& costs,
    const std::vector<planner::Sample>& samples) {
  const auto per_plan = static_cast<size_t>(SamplesPerPlan(setup));
  std::vector<wire::StepPlan> plans;
  for (size_t begin = 0; begin < samples.size(); begin += per_plan) {
    const size_t end = std::min(samples.size(), begin + per_plan);
    planner::PlanRequest request = RequestOf(setup, costs);
    request.samples.assign(samples.begin() + begin, samples.begin() + end);
    absl::StatusOr<planner::Plan> plan = PlanOrStatic(&request);
    if (!plan.ok() && !absl::IsFailedPrecondition(plan.status())) {
      // Costs that were measured never end a job.
      request.time = planner::NominalCosts(request.model);
      plan = PlanOrStatic(&request);
    }
    EVENSTEP_RETURN_IF_ERROR(plan.status());
    plans.push_back(wire::MakeStepPlan(
        request, *plan, setup.generation, static_cast<int64_t>(plans.size()),
        planner::PolicyName(request.options.policy)));
  }
  return plans;
}

uint64_t DigestOf(const std::vector<wire::StepPlan>& plans) {
  Fnv1a64 digest;
  for (const wire::StepPlan& plan : plans) {
    digest.AddInt(static_cast<int64_t>(plan.digest));
  }
  return digest.value();
}

}  // namespace evenstep::trainer
