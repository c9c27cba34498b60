#include "coordinator/planning/checked_plan.h"

#include <utility>

#include "base/status_macros.h"
#include "planner/planner.h"
#include "wire/step_plan.h"

namespace evenstep::coordinator {
namespace {

absl::StatusOr<v1::StepPlan> PlanAndCheck(const PlanWork& work,
                                          const PlannerFunctions& planner) {
  EVENSTEP_ASSIGN_OR_RETURN(const planner::Plan plan,
                            planner.make(work.request));
  EVENSTEP_RETURN_IF_ERROR(planner.check(work.request, plan));
  return wire::ToProto(
      wire::MakeStepPlan(work.request, plan, work.generation, work.step,
                         planner::PolicyName(work.request.options.policy)));
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
  outcome.plan = PlanAndCheck(work, planner);
  if (!outcome.plan.ok() &&
      work.request.options.policy != planner::Policy::kStatic) {
    PlanWork fallback = work;
    fallback.request.options.policy = planner::Policy::kStatic;
    absl::StatusOr<v1::StepPlan> plan = PlanAndCheck(fallback, planner);
    if (plan.ok()) {
      outcome.refusal = outcome.plan.status();
      outcome.plan = std::move(plan);
    }
  }
  outcome.duration = clock.Monotonic() - begin;
  return outcome;
}

}  // namespace evenstep::coordinator
