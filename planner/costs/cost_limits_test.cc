#include "planner/costs/cost_limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "planner/costs/cost_fields.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

// Every cost, in lists too.
TimeModel AllCosts() {
  TimeModel time;
  time.collective = {{2, 1}, {4, 1}};
  time.gather = {{2, 1}};
  time.collective_across = {{2, 1}};
  time.gather_across = {{8, 1}};
  return time;
}

TEST(CostLimitsTest, TheHighestCostsAreLegalAndNoneMayBeHigher) {
  const TimeModel highest = HighestCosts(AllCosts());
  EXPECT_TRUE(ValidateTime(highest).ok()) << ValidateTime(highest);
  int num_costs = 0;
  ForEachCost(highest, [&](const CostKey&, auto) { ++num_costs; });
  for (int beyond = 0; beyond < num_costs; ++beyond) {
    TimeModel time = highest;
    std::string changed;
    int i = 0;
    ForEachCost(time, [&](const CostKey& key, auto& cost) {
      if (i++ != beyond) return;
      cost = cost + cost / 1024;
      changed = absl::StrReplaceAll(key.name, {{" at", ": at"}});
    });
    const absl::Status status = ValidateTime(time);
    EXPECT_NE(status.message().find("time." + changed + ": "),
              std::string::npos)
        << changed << ": " << status;
    EXPECT_EQ(WithinLimits(time), highest) << changed;
  }
}

// A field that the table does not know would be planned with unchecked.
TEST(CostLimitsTest, TheTableHasEveryCostOfTheModel) {
  const TimeModel none;
  TimeModel highest = HighestCosts(none);
  const auto* bytes = reinterpret_cast<const double*>(&highest.spatial);
  for (size_t i = 0; i < sizeof(LayerTime) / sizeof(double); ++i) {
    EXPECT_GT(bytes[i], 0) << "LayerTime, value " << i;
  }
  EXPECT_GT(highest.collective_latency_across_ns, 0);
  EXPECT_GT(highest.sharded_attention_ns_per_token, 0);
  EXPECT_GT(highest.attention_ns_per_token, 0);
  EXPECT_GT(highest.head_ns_per_token, 0);
  EXPECT_GT(highest.step_fixed_ns, 0);
}

TEST(CostLimitsTest, CostsBeyondLimitsAreHeldAtThem) {
  TimeModel time = AllCosts();
  time.quadratic_ns_per_token2 = 2333.41;
  time.linear_ns_per_token = -3;
  time.attention_ns_per_token = 5;
  time.step_fixed_ns = std::numeric_limits<int64_t>::max();
  time.gather[0].ns_per_token = std::numeric_limits<double>::infinity();
  const TimeModel held = WithinLimits(time);
  EXPECT_TRUE(ValidateTime(held).ok()) << ValidateTime(held);
  EXPECT_EQ(held.quadratic_ns_per_token2, kMaxQuadraticNsPerToken2);
  EXPECT_EQ(held.linear_ns_per_token, 0);
  EXPECT_EQ(held.attention_ns_per_token, 0) << "a part of the linear cost";
  EXPECT_EQ(held.step_fixed_ns, kMaxFixedNs);
  EXPECT_EQ(held.collective[0].ns_per_token, 1);
}

TEST(CostLimitsTest, WhatIsNoNumberOrAllZeroMakesMeasuredCostsNominal) {
  ModelShape model;
  model.width = 64;
  TimeModel measured;
  measured.linear_ns_per_token = 10;
  EXPECT_EQ(PlannableCosts(measured, model), measured);
  EXPECT_EQ(PlannableCosts({}, model), NominalCosts(model));
  measured.head_ns_per_token = std::nan("");
  EXPECT_TRUE(std::isnan(WithinLimits(measured).head_ns_per_token));
  EXPECT_EQ(PlannableCosts(measured, model), NominalCosts(model));
}

TEST(CostLimitsTest, NominalCostsPlanSmallAndLargeModels) {
  for (int width : {0, 32, 4096, 16384}) {
    for (bool video : {false, true}) {
      PlanRequest request =
          testing::SimpleRequest(4, 1 << 20, {1, 10, 5000, 100'000, 1 << 20});
      if (video) request = testing::AsVideo(request, 3);
      request.model.width = width;
      request.model.num_layers = 96;
      request.time = NominalCosts(request.model);
      EXPECT_TRUE(ValidateTime(request.time).ok());
      EXPECT_LT(request.time.linear_ns_per_token, kMaxLinearNsPerToken);
      EXPECT_LT(request.time.quadratic_ns_per_token2, kMaxQuadraticNsPerToken2);
      const auto plan = MakePlan(request);
      ASSERT_TRUE(plan.ok()) << width << ": " << plan.status();
      EXPECT_GT(plan->predicted_step_ns, 0);
    }
  }
}

}  // namespace
}  // namespace evenstep::planner
