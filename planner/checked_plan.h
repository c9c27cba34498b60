#ifndef EVENSTEP_PLANNER_CHECKED_PLAN_H_
#define EVENSTEP_PLANNER_CHECKED_PLAN_H_

// A plan that is proven. One that the checker refuses is never used: `static`
// takes its place. Costs and speeds that no plan can be made with are replaced
// by earlier ones, because they are estimates, and an estimate never ends a
// job. Pure; thread-safe.

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

// The planner, exchangeable so that tests can plant a faulty one.
struct PlannerFunctions {
  std::function<absl::StatusOr<Plan>(const PlanRequest&)> make;
  std::function<absl::Status(const PlanRequest&, const Plan&)> check;
};
PlannerFunctions RealPlanner();

// What a plan is made with and what may come from measured times.
struct Estimates {
  TimeModel costs;
  std::vector<double> rank_speeds;  // empty: all nominal
};

struct CheckedPlan {
  // What the plan was made for: the request that was given, with the policy,
  // costs and speeds that took the place of its own.
  PlanRequest request;
  Plan plan;
  // Not ok: why the policy was replaced by `static`.
  absl::Status refusal;
  // Not ok: why no plan could be made with the request's costs and speeds.
  absl::Status estimate_refusal;
};

// `earlier` take the place of the request's costs and speeds, one after
// another, where no plan can be made with them. FAILED_PRECONDITION: no plan
// exists at any cost. Other errors: as of MakePlan and CheckPlan with the
// request's own costs and policy.
absl::StatusOr<CheckedPlan> MakeCheckedPlan(
    const PlanRequest& request, const std::vector<Estimates>& earlier,
    const PlannerFunctions& planner = RealPlanner());

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_CHECKED_PLAN_H_
