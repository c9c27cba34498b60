#ifndef EVENSTEP_PLANNER_TESTING_CHECKED_PLAN_H_
#define EVENSTEP_PLANNER_TESTING_CHECKED_PLAN_H_

// A policy's plan that must be there and pass the checker. For tests.

#include <gtest/gtest.h>

#include <utility>

#include "planner/planner.h"

namespace evenstep::planner::testing {

inline Plan PlanWith(Policy policy, PlanRequest request) {
  request.options.policy = policy;
  auto plan = MakePlan(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  EXPECT_TRUE(CheckPlan(request, *plan).ok()) << CheckPlan(request, *plan);
  return *std::move(plan);
}

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_CHECKED_PLAN_H_
