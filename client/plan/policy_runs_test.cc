#include "client/plan/policy_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/plan/comparison_fixture.h"
#include "client/plan/plan_json.h"
#include "client/plan/plan_setup.h"
#include "client/plan/plan_table.h"
#include "data/length_law.h"
#include "planner/costs/degrees.h"

namespace evenstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Without what depends on the machine.
std::string JsonOf(const Comparison& comparison) {
  Json json = ToJson(comparison, {"law", "costs", "source"});
  for (Json& policy : json["policies"]) policy.erase("planning_seconds");
  return json.dump();
}

TEST(PolicyRunsTest, AnyNumberOfThreadsMakesTheSamePlans) {
  const auto request = WikipediaRequest(128, 16);
  const std::string one = JsonOf(Compare(request, 1));
  EXPECT_EQ(one, JsonOf(Compare(request, 3)));
  EXPECT_EQ(one, JsonOf(Compare(request, 16)));
}

// A baseline is what a user would tune it to: here a wider degree than the
// smallest that holds the longest document is faster.
TEST(PolicyRunsTest, PoliciesOfOneDegreeAreGivenTheFastestOne) {
  planner::PlanRequest request = WikipediaRequest(128, 16);
  request.options.policy = planner::Policy::kStatic;
  const Comparison comparison = Compare(request, 1, "static");
  ASSERT_TRUE(comparison.runs[0].status.ok());
  const planner::Plan& tuned = comparison.runs[0].plan;
  int num_feasible = 0;
  for (int degree : planner::LegalDegrees(request)) {
    request.options.static_degree = degree;
    const auto plan = planner::MakePlan(request);
    if (!plan.ok()) continue;
    ++num_feasible;
    EXPECT_LE(tuned.predicted_step_ns, plan->predicted_step_ns) << degree;
    EXPECT_EQ(planner::CheckPlan(request, *plan), absl::OkStatus());
    EXPECT_EQ(DegreesOf(*plan), std::to_string(degree));
  }
  EXPECT_GT(num_feasible, 1);
}

TEST(PolicyRunsTest, EvenIsTheFastestAndBoundsAreTheSame) {
  const Comparison comparison = Compare(WikipediaRequest(128, 16), 1);
  const PolicyRun* best = comparison.BestBaseline();
  ASSERT_NE(best, nullptr);
  for (const PolicyRun& run : comparison.runs) {
    ASSERT_TRUE(run.status.ok()) << run.status;
    EXPECT_GE(RatioToBound(run.plan), 1);
    EXPECT_EQ(run.plan.lower_bound_ns, best->plan.lower_bound_ns);
    EXPECT_GE(run.planning_seconds, 0);
    if (run.policy != planner::Policy::kEven) {
      EXPECT_GE(run.plan.predicted_step_ns, best->plan.predicted_step_ns);
    } else {
      EXPECT_LE(run.plan.predicted_step_ns, best->plan.predicted_step_ns);
    }
  }
  const TextRows table = ComparisonTable(comparison);
  EXPECT_EQ(table.size(), comparison.runs.size() + 1);
  EXPECT_EQ(table[1][0], "even");
}

// A sample that only fits with recompute: a policy that keeps to one number of
// layers is run with the best one.
TEST(PolicyRunsTest, SimplePoliciesAreGivenTheRecomputeThatSuitsThem) {
  PlanSetup setup;
  setup.num_gpus = 2;
  setup.tokens_per_gpu = 1000;
  auto request = BuildRequest(setup, *LoadCosts(setup.costs),
                              {{4000, 0, 0, 0}, {10, 0, 0, 0}});
  ASSERT_TRUE(request.ok()) << request.status();
  const Comparison comparison = Compare(*request, 1, "packed");
  ASSERT_TRUE(comparison.runs[0].status.ok()) << comparison.runs[0].status;
  EXPECT_GT(RecomputeRatio(*request, comparison.runs[0].plan), 0);
}

TEST(PolicyRunsTest, WhatFitsNowhereIsSaidOnceWithWhatWouldHelp) {
  PlanSetup setup;
  setup.num_gpus = 2;
  setup.recompute = RecomputeChoice::kFixed;
  setup.tokens_per_gpu = 100;
  auto request =
      BuildRequest(setup, *LoadCosts(setup.costs), {{5000, 0, 0, 0}});
  ASSERT_TRUE(request.ok()) << request.status();
  const Comparison comparison = Compare(*request, 1);
  EXPECT_FALSE(comparison.AnyPlan());
  EXPECT_EQ(comparison.BestBaseline(), nullptr);
  EXPECT_TRUE(DescribeBound(comparison).empty());
  const auto failures = Failures(comparison);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_THAT(failures[0], HasSubstr("static, balanced"));
  EXPECT_THAT(failures[0], HasSubstr("It fits with"));
  const Json json = ToJson(comparison, {});
  EXPECT_THAT(json["policies"][0]["error"].get<std::string>(),
              HasSubstr("5000 tokens"));
}

TEST(PolicyRunsTest, SimulatedRunsStandBesideThePrediction) {
  RunOptions options;
  options.policies = *PoliciesNamed("even");
  options.simulate.emplace().layer_noise = 0.05;
  const auto comparison = ComparePolicies(WikipediaRequest(64, 8), options);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const PolicyRun& run = comparison->runs[0];
  ASSERT_TRUE(run.simulated.has_value());
  EXPECT_GT(run.simulated->step_ns, run.plan.predicted_step_ns);
  const TextRows table = ComparisonTable(*comparison);
  EXPECT_EQ(table[0].back(), "idle");
  EXPECT_EQ(table[1].size(), table[0].size());
  const Json json = ToJson(*comparison, {});
  EXPECT_EQ(json["policies"][0]["simulated"]["busy_seconds"].size(), 8u);
  options.simulate->layer_noise = -1;
  EXPECT_EQ(ComparePolicies(WikipediaRequest(64, 8), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PolicyRunsTest, JsonHasEveryKeyOfTheContract) {
  const Json json = ToJson(Compare(WikipediaRequest(32, 8), 1, "even"),
                           {"law wikipedia", "flexsp-7b-a100", "FlexSP"});
  EXPECT_EQ(json["request"]["samples"], 32);
  EXPECT_EQ(json["request"]["gpus_per_node"].dump(), "[8]");
  const Json& even = json["policies"][0];
  std::vector<std::string> keys;
  for (const auto& [key, value] : even.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("policy", "step_seconds", "lower_bound_seconds",
                                "bound", "ratio", "planning_seconds",
                                "imbalance", "padding_ratio", "recompute_ratio",
                                "tokens_per_second", "plan"));
  EXPECT_EQ(even["plan"]["digest"].get<std::string>().size(), 16u);
  size_t num_samples = 0;
  for (const Json& batch : even["plan"]["micro_batches"]) {
    num_samples += batch["samples"].size();
    for (const char* key : {"order", "round", "first_rank", "degree",
                            "tokens_per_rank", "recompute", "seconds"}) {
      EXPECT_TRUE(batch.contains(key)) << key;
    }
  }
  EXPECT_EQ(num_samples, 32u);
}

TEST(PolicyRunsTest, UnknownPoliciesAndThreadsAreRefused) {
  const auto unknown = PoliciesNamed("evn");
  EXPECT_THAT(unknown.status().message(), HasSubstr("dcp-intra, and all"));
  RunOptions options;
  options.num_threads = 0;
  EXPECT_EQ(ComparePolicies(WikipediaRequest(4, 2), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PlanTableTest, NumbersReadWell) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1234567), "1,234,567");
  EXPECT_EQ(WithCommas(-123456), "-123,456");
  EXPECT_EQ(ShortCount(950), "950");
  EXPECT_EQ(ShortCount(12345), "12.3k");
  EXPECT_EQ(ShortCount(4.56e6), "4.56M");
}

TEST(PlanTableTest, APlanIsListedByMicroBatch) {
  const auto request = WikipediaRequest(64, 8);
  const Comparison comparison = Compare(request, 1, "packed");
  const auto& plan = comparison.runs[0].plan;
  const TextRows rows = PlanRows(request, plan);
  ASSERT_EQ(rows.size(), plan.micro_batches.size() + 1);
  EXPECT_EQ(rows[0][0], "order");
  EXPECT_EQ(rows[1].size(), rows[0].size());
  EXPECT_THAT(DescribeRequest(request), HasSubstr("64 samples, "));
}

}  // namespace
}  // namespace evenstep::plan
