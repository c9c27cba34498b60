#include "planner/checked_plan.h"

#include <utility>

#include "base/status_macros.h"
#include "planner/costs/fits.h"
#include "planner/planner.h"

namespace evenstep::planner {
namespace {

absl::StatusOr<CheckedPlan> PlanAndCheck(const PlanRequest& request,
                                         const PlannerFunctions& planner) {
  CheckedPlan checked;
  EVENSTEP_ASSIGN_OR_RETURN(checked.plan, planner.make(request));
  EVENSTEP_RETURN_IF_ERROR(planner.check(request, checked.plan));
  checked.request = request;
  return checked;
}

absl::StatusOr<CheckedPlan> PlanOrStatic(const PlanRequest& request,
                                         const PlannerFunctions& planner) {
  absl::StatusOr<CheckedPlan> checked = PlanAndCheck(request, planner);
  if (checked.ok() || request.options.policy == Policy::kStatic) {
    return checked;
  }
  PlanRequest fallback = request;
  fallback.options.policy = Policy::kStatic;
  // It does not choose: what holds most, holds all.
  fallback.options.recompute_layers = RoomiestMode(request);
  absl::StatusOr<CheckedPlan> other = PlanAndCheck(fallback, planner);
  if (!other.ok()) return checked;
  other->refusal = checked.status();
  return other;
}

}  // namespace

PlannerFunctions RealPlanner() { return {MakePlan, CheckPlan}; }

absl::StatusOr<CheckedPlan> MakeCheckedPlan(
    const PlanRequest& request, const std::vector<Estimates>& earlier,
    const PlannerFunctions& planner) {
  absl::StatusOr<CheckedPlan> checked = PlanOrStatic(request, planner);
  // What does not fit does so at any cost.
  if (checked.ok() || absl::IsFailedPrecondition(checked.status())) {
    return checked;
  }
  for (const Estimates& estimates : earlier) {
    PlanRequest again = request;
    again.time = estimates.costs;
    again.cluster.rank_speed = estimates.rank_speeds;
    absl::StatusOr<CheckedPlan> other = PlanOrStatic(again, planner);
    if (!other.ok()) continue;
    other->estimate_refusal = checked.status();
    return other;
  }
  return checked;
}

}  // namespace evenstep::planner
