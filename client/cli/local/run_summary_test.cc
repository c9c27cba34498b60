#include "client/cli/local/run_summary.h"

#include "base/yaml.h"
#include "gtest/gtest.h"
#include "planner/costs/cost_file.h"

namespace evenstep::cli {
namespace {

client::StepSummary Step(int64_t step, double seconds, int64_t tokens,
                         double idle, double padding) {
  client::StepSummary summary;
  summary.step = step;
  summary.loss = 5.0 - static_cast<double>(step);
  summary.step_seconds = seconds;
  summary.trained_tokens = tokens;
  summary.idle_share = idle;
  summary.padding_ratio = padding;
  summary.mean_cpu_seconds = 0.5;
  summary.slowest_cpu_seconds = 0.75;
  return summary;
}

client::Job TwoRanks() {
  client::Job job;
  job.id = "a";
  job.ranks = 2;
  job.state = client::JobState::kSucceeded;
  job.totals.coordination_share = 0.25;
  job.totals.steps_with_plan_lead = 3;
  job.totals.steps_after_fourth = 4;
  return job;
}

TEST(RunSummary, FiguresLeaveTheFirstTwoStepsOut) {
  const Json summary = SummarizeRun(
      TwoRanks(), {Step(0, 100, 10, 1, 0.5), Step(1, 100, 10, 1, 0.5),
                   Step(2, 1, 100, 0.5, 0.5), Step(3, 3, 100, 0.25, 0),
                   Step(4, 2, 100, 0, 0)});
  EXPECT_EQ(summary["step_seconds"], 2);
  EXPECT_EQ(summary["tokens_per_second"], 50);
  EXPECT_DOUBLE_EQ(summary["idle_share"], (0.5 * 1 + 0.25 * 3) / 6);
  EXPECT_DOUBLE_EQ(summary["padding_ratio"], 100.0 / 400.0);
  EXPECT_EQ(summary["first_loss"], 5);
  EXPECT_EQ(summary["final_loss"], 1);
  EXPECT_EQ(summary["coordination_share"], 0.25);
  EXPECT_EQ(summary["plan_lead_share"], 0.75);
  EXPECT_EQ(summary["cpu_seconds"], 5);
  EXPECT_EQ(summary["slowest_rank_cpu_seconds"], 3.75);
  EXPECT_EQ(summary["losses"], Json({5, 4, 3, 2, 1}));
  EXPECT_EQ(summary["step_seconds_all"].size(), 5u);
  EXPECT_EQ(summary["steps"][4]["trained_tokens"], 100);
}

// A run's costs are given to the next one as they stand: JSON is YAML.
TEST(RunSummary, CostsReadBackAsACostFile) {
  client::Job job = TwoRanks();
  job.costs =
      client::Costs{1000, 0, 0, 2000, {{2, 75.5}}, 3000, 0.25, {}, {}, {}};
  job.costs->spatial = {250.5, 0.5};
  job.costs->temporal = {125.25, 0.75};
  const auto yaml =
      ParseYaml(SummarizeRun(job, {})["costs"].dump(), "summary.json");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  const auto costs = planner::ReadJobCosts(*yaml, "summary.json");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->micro_batch_fixed_ns, 1000);
  EXPECT_EQ(costs->head_ns_per_token, 0.25);
  EXPECT_EQ(costs->spatial.linear_ns_per_token, 250.5);
  EXPECT_EQ(costs->spatial.quadratic_ns_per_token2, 0.5);
  EXPECT_EQ(costs->temporal.linear_ns_per_token, 125.25);
  EXPECT_EQ(costs->temporal.quadratic_ns_per_token2, 0.75);
  ASSERT_EQ(costs->collective.size(), 1u);
  EXPECT_EQ(costs->collective[0].ns_per_token, 75.5);
  // Of a text model they are not mentioned.
  job.costs = client::Costs();
  EXPECT_EQ(SummarizeRun(job, {})["costs"].count("spatial_linear_ns_per_token"),
            0);
}

TEST(RunSummary, AnEvenNumberOfStepsHasAMedianInBetween) {
  const Json summary =
      SummarizeRun(TwoRanks(), {Step(0, 9, 1, 0, 0), Step(1, 9, 1, 0, 0),
                                Step(2, 1, 1, 0, 0), Step(3, 2, 1, 0, 0)});
  EXPECT_EQ(summary["step_seconds"], 1.5);
}

TEST(RunSummary, AShortRunUsesAllItsSteps) {
  EXPECT_EQ(SummarizeRun(TwoRanks(), {Step(0, 4, 8, 0, 0)})["step_seconds"], 4);
}

TEST(RunSummary, ARunWithoutStepsHasNoFigures) {
  const Json summary = SummarizeRun(TwoRanks(), {});
  for (const char* key :
       {"step_seconds", "tokens_per_second", "idle_share", "first_loss"}) {
    EXPECT_TRUE(summary[key].is_null()) << key;
  }
  EXPECT_EQ(FormatLossCurve({}),
            "step,loss,step_seconds,trained_tokens,idle_share,padding_ratio,"
            "evaluation_loss\n");
}

TEST(RunSummary, ARunOnAnEmulatedLinkIsLabelled) {
  EXPECT_EQ(SummarizeRun(TwoRanks(), {})["emulated_link"], "");
  client::Job job = TwoRanks();
  job.emulated_link = "EMULATED link: 2 ranks a node";
  EXPECT_EQ(SummarizeRun(job, {})["emulated_link"], job.emulated_link);
}

TEST(RunSummary, TheLossCurveHasARowPerStep) {
  EXPECT_EQ(FormatLossCurve({Step(0, 0.5, 10, 0.25, 0)}),
            "step,loss,step_seconds,trained_tokens,idle_share,padding_ratio,"
            "evaluation_loss\n"
            "0,5,0.500000,10,0.250000,0.000000,\n");
}

}  // namespace
}  // namespace evenstep::cli
