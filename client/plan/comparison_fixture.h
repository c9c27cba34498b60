#ifndef EVENSTEP_CLIENT_PLAN_COMPARISON_FIXTURE_H_
#define EVENSTEP_CLIENT_PLAN_COMPARISON_FIXTURE_H_

// Comparisons of policies on a known step, for the tests of this room. Header
// only; failures are reported to the running test.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/plan/plan_setup.h"
#include "client/plan/policy_runs.h"
#include "data/length_law.h"

namespace evenstep::plan {

inline planner::PlanRequest WikipediaRequest(int num_samples, int num_gpus) {
  PlanSetup setup;
  setup.num_gpus = num_gpus;
  setup.costs = "flexsp-7b-a100";
  setup.micro_batch_fixed_ms = 20;
  auto request = BuildRequest(
      setup, *LoadCosts(setup.costs),
      data::DrawLengths(*data::ParseLengthLaw("wikipedia"), num_samples, 1));
  EXPECT_TRUE(request.ok()) << request.status();
  return *request;
}

inline Comparison Compare(const planner::PlanRequest& request,
                          int num_threads = 1,
                          const std::string& policy = "all") {
  RunOptions options;
  options.policies = *PoliciesNamed(policy);
  options.num_threads = num_threads;
  auto comparison = ComparePolicies(request, options);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return *std::move(comparison);
}

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_COMPARISON_FIXTURE_H_
