#include "planner/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/evaluate.h"
#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/testing/random_request.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// A plan of exactly these placements, with all its numbers.
Plan PlanOf(const PlanRequest& request, std::vector<Placement> placements) {
  return BuildPlan(request, CostModel(request, 0), LowerBound(),
                   std::move(placements));
}

SimulatedStep RunOn(const PlanRequest& request, const Plan& plan,
                    const Hardware& hardware = {}) {
  auto step = Simulate(request, plan, hardware);
  EXPECT_TRUE(step.ok()) << step.status();
  return step.ok() ? *std::move(step) : SimulatedStep();
}

// Two ranks, 1 ms a token: both hold 8 tokens together for 4 ms, then rank 0
// has 6 tokens and rank 1 has 2 for itself.
struct SmallCase {
  PlanRequest request = testing::SimpleRequest(2, 8, {8, 6, 2});
  Plan plan = PlanOf(request, {{{0, 2}, {0}}, {{0, 1}, {1}}, {{1, 1}, {2}}});
};

TEST(SimulatorTest, WithoutNoiseThePlanTakesWhatWasPredicted) {
  SmallCase small;
  small.request.time.step_fixed_ns = 3 * kMs;
  const SimulatedStep step = RunOn(small.request, small.plan);
  EXPECT_EQ(step.step_ns, 13 * kMs);
  EXPECT_EQ(step.ranks[0].busy_ns, 13 * kMs);
  EXPECT_EQ(step.ranks[0].waiting_ns, 0);
  EXPECT_EQ(step.ranks[1].busy_ns, 9 * kMs);
  EXPECT_EQ(step.ranks[1].waiting_ns, 4 * kMs);
  EXPECT_DOUBLE_EQ(step.idle_share, 4.0 / 26);
  ASSERT_EQ(step.timeline.size(), 4u);
  const SimulatedSpan& last = step.timeline[3];
  EXPECT_EQ(last.rank, 1);
  EXPECT_EQ(last.micro_batch, 2);
  EXPECT_EQ(last.ready_ns, 4 * kMs);
  EXPECT_EQ(last.start_ns, 4 * kMs);
  EXPECT_EQ(last.end_ns, 6 * kMs);
  EXPECT_EQ(last.waiting_ns, 0);
}

TEST(SimulatorTest, AGroupStartsWhenItsLastRankIsFree) {
  const PlanRequest request = testing::SimpleRequest(2, 8, {6, 2, 8});
  const Plan plan =
      PlanOf(request, {{{0, 1}, {0}}, {{1, 1}, {1}}, {{0, 2}, {2}}});
  const SimulatedStep step = RunOn(request, plan);
  EXPECT_EQ(step.step_ns, 10 * kMs);
  const SimulatedSpan& early = step.timeline[3];  // rank 1 in the wide group
  EXPECT_EQ(early.ready_ns, 2 * kMs);
  EXPECT_EQ(early.start_ns, 6 * kMs);
  EXPECT_EQ(early.waiting_ns, 4 * kMs);
  EXPECT_EQ(step.ranks[1].waiting_ns, 4 * kMs);
}

TEST(SimulatorTest, RoundsWaitForTheSlowestGroupEverywhere) {
  PlanRequest request = testing::SimpleRequest(2, 8, {6, 2, 3});
  request.options.sync = SyncMode::kPerRound;
  const Plan plan =
      PlanOf(request, {{{0, 1}, {0}, 0}, {{1, 1}, {1}, 0}, {{1, 1}, {2}, 1}});
  const SimulatedStep step = RunOn(request, plan);
  EXPECT_EQ(step.step_ns, 9 * kMs);
  EXPECT_EQ(step.timeline[2].start_ns, 6 * kMs);
  EXPECT_EQ(step.ranks[0].waiting_ns, 3 * kMs);
  EXPECT_EQ(step.ranks[1].waiting_ns, 4 * kMs);
}

TEST(SimulatorTest, AnUnknownStragglerHoldsItsGroupUp) {
  SmallCase small;
  Hardware hardware;
  hardware.rank_slowdown = {1, 1.5};
  const SimulatedStep step = RunOn(small.request, small.plan, hardware);
  // The wide group takes 6 ms: rank 0 waits for 2 of them in its collectives.
  EXPECT_EQ(step.timeline[0].end_ns, 6 * kMs);
  EXPECT_EQ(step.timeline[0].waiting_ns, 2 * kMs);
  EXPECT_EQ(step.timeline[1].waiting_ns, 0);
  EXPECT_EQ(step.timeline[3].end_ns, 9 * kMs);
  EXPECT_EQ(step.step_ns, 12 * kMs);
  EXPECT_EQ(step.ranks[1].waiting_ns, 3 * kMs);
}

TEST(SimulatorTest, ASlowRankThatThePlannerKnowsIsNotCountedTwice) {
  SmallCase small;
  small.request.cluster.rank_speed = {1, 0.5};
  small.plan =
      PlanOf(small.request, {{{0, 2}, {0}}, {{0, 1}, {1}}, {{1, 1}, {2}}});
  const SimulatedStep step = RunOn(small.request, small.plan);
  EXPECT_EQ(step.step_ns, small.plan.predicted_step_ns);
  EXPECT_EQ(step.step_ns, 14 * kMs);                // 8 + 6
  EXPECT_EQ(step.timeline[0].waiting_ns, 4 * kMs);  // the fast rank
  EXPECT_EQ(step.timeline[1].waiting_ns, 0);
}

TEST(SimulatorTest, TwoNetworkLevelsSlowTheirOwnCollectives) {
  PlanRequest request = testing::SimpleRequest(4, 8, {8, 8});
  request.cluster.ranks_per_node = {1, 3};
  request.time.collective = {{2, 5e5}};  // 4 tokens a rank: 2 ms
  const Plan plan = PlanOf(request, {{{0, 2}, {0}}, {{2, 2}, {1}}});
  ASSERT_EQ(plan.micro_batches[0].predicted_ns, 6 * kMs);
  Hardware hardware;
  hardware.across_nodes.slowdown = 3;
  SimulatedStep step = RunOn(request, plan, hardware);
  EXPECT_EQ(step.timeline[0].end_ns, 10 * kMs);
  EXPECT_EQ(step.timeline[2].end_ns, 6 * kMs);
  hardware.across_nodes.slowdown = 1;
  hardware.inside_nodes.slowdown = 2;
  step = RunOn(request, plan, hardware);
  EXPECT_EQ(step.timeline[0].end_ns, 6 * kMs);
  EXPECT_EQ(step.timeline[2].end_ns, 8 * kMs);
}

TEST(SimulatorTest, WrongCostsRunThePlanAtTheTrueOnes) {
  SmallCase small;
  Hardware hardware;
  hardware.true_time = small.request.time;
  hardware.true_time->linear_ns_per_token = 2e6;
  hardware.true_time->micro_batch_fixed_ns = kMs;
  hardware.true_time->step_fixed_ns = 5 * kMs;
  const SimulatedStep step = RunOn(small.request, small.plan, hardware);
  EXPECT_EQ(step.step_ns, (1 + 8 + 1 + 12 + 5) * kMs);
}

TEST(SimulatorTest, MisjudgedCostsStayWithinTheirWidthAndHaveBothSigns) {
  TimeModel time;
  time.linear_ns_per_token = 1000;
  time.micro_batch_fixed_ns = 1'000'000;
  for (int degree = 2; degree <= 202; ++degree) {
    time.collective.push_back({degree, 50});
  }
  const auto wrong = MisjudgedCosts(time, 0.1, 1);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_NE(wrong->linear_ns_per_token, 1000);
  EXPECT_NEAR(wrong->linear_ns_per_token, 1000, 100);
  EXPECT_NEAR(static_cast<double>(wrong->micro_batch_fixed_ns), 1e6, 1e5);
  int cheaper = 0;
  for (const auto& entry : wrong->collective) {
    EXPECT_NEAR(entry.ns_per_token, 50, 5);
    cheaper += entry.ns_per_token < 50;
  }
  EXPECT_NEAR(cheaper, 100, 30);
  EXPECT_EQ(MisjudgedCosts(time, 0, 1)->linear_ns_per_token, 1000);
  EXPECT_EQ(MisjudgedCosts(time, 1, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SimulatorTest, MisjudgedCostsKeepAttentionAPartOfTheLinearCost) {
  PlanRequest request = testing::SimpleRequest(2, 64, {64});
  request.time.linear_ns_per_token = 1000;
  request.time.attention_ns_per_token = 1000;
  const TimeModel time = request.time;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    request.time = *MisjudgedCosts(time, 0.3, seed);
    const absl::Status verdict = ValidateRequest(request);
    EXPECT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict;
    EXPECT_NEAR(request.time.linear_ns_per_token, 1000, 300);
  }
}

// Mean time over the noiseless one of a group of `degree`, which computes 1000
// layers of equal length.
double NoiseFactor(int degree, double sigma) {
  PlanRequest request = testing::SimpleRequest(degree, 64, {64});
  request.model.num_layers = 1000;
  const Plan plan = PlanOf(request, {{{0, degree}, {0}}});
  Hardware hardware;
  hardware.layer_noise = sigma;
  return static_cast<double>(RunOn(request, plan, hardware).step_ns) /
         static_cast<double>(plan.predicted_step_ns);
}

// The expected maximum of d half-normal values: 0.798 for 1, 1.128 for 2 and
// 2.596 for 64 (by integration). A simulation that drew one value per
// group, or added noise up per rank, would give 0.798 for all.
TEST(SimulatorTest, LayerNoiseActsAsAMaximumOverTheGroup) {
  EXPECT_NEAR(NoiseFactor(1, 0.1), 1.0798, 0.006);
  EXPECT_NEAR(NoiseFactor(2, 0.1), 1.1128, 0.006);
  EXPECT_NEAR(NoiseFactor(64, 0.1), 1.2596, 0.006);
}

TEST(SimulatorTest, RankNoiseIsTheSameInEveryMicroBatch) {
  const PlanRequest request = testing::SimpleRequest(1, 8, {5, 5});
  const Plan plan = PlanOf(request, {{{0, 1}, {0}}, {{0, 1}, {1}}});
  Hardware hardware;
  hardware.rank_noise = 0.2;
  const SimulatedStep step = RunOn(request, plan, hardware);
  const int64_t first_ns = step.timeline[0].end_ns;
  EXPECT_GT(first_ns, 5 * kMs);
  EXPECT_EQ(step.step_ns, 2 * first_ns);
}

Hardware NoisyHardware(uint64_t seed) {
  Hardware hardware;
  hardware.seed = seed;
  hardware.layer_noise = 0.1;
  hardware.rank_noise = 0.05;
  hardware.inside_nodes = {1.1, 0.2};
  hardware.across_nodes = {1.5, 0.5};
  return hardware;
}

// Starts, ends and sums of every rank fit together.
void ExpectConsistent(const SimulatedStep& step) {
  std::vector<int64_t> free_ns(step.ranks.size(), 0);
  for (const SimulatedSpan& span : step.timeline) {
    EXPECT_GE(span.ready_ns, free_ns[span.rank]);
    EXPECT_GE(span.start_ns, span.ready_ns);
    EXPECT_GE(span.end_ns, span.start_ns);
    EXPECT_GE(span.waiting_ns, span.start_ns - span.ready_ns);
    EXPECT_LE(span.waiting_ns, span.end_ns - span.ready_ns);
    free_ns[span.rank] = span.end_ns;
  }
  for (const SimulatedRank& rank : step.ranks) {
    EXPECT_GE(rank.busy_ns, 0);
    EXPECT_GE(rank.waiting_ns, 0);
    EXPECT_EQ(rank.busy_ns + rank.waiting_ns, step.step_ns);
  }
}

TEST(SimulatorTest, RandomPlansTakeWhatWasPredictedAndLongerWithNoise) {
  int simulated = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {16, 40});
    request.options.sync =
        seed % 2 == 0 ? SyncMode::kPerStep : SyncMode::kPerRound;
    request.options.policy =
        seed % 3 == 0 ? Policy::kPacked : Policy::kDcpInter;
    const auto plan = MakePlan(request);
    if (!plan.ok()) continue;
    ++simulated;
    const SimulatedStep exact = RunOn(request, *plan);
    EXPECT_EQ(exact.step_ns, plan->predicted_step_ns) << "seed " << seed;
    ExpectConsistent(exact);
    const SimulatedStep noisy = RunOn(request, *plan, NoisyHardware(seed));
    EXPECT_GE(noisy.step_ns, plan->predicted_step_ns) << "seed " << seed;
    ExpectConsistent(noisy);
  }
  EXPECT_GT(simulated, 100);
}

TEST(SimulatorTest, TheSeedDecidesTheStep) {
  const SmallCase small;
  auto step_ns = [&small](uint64_t seed) {
    return RunOn(small.request, small.plan, NoisyHardware(seed)).step_ns;
  };
  EXPECT_EQ(step_ns(1), step_ns(1));
  EXPECT_NE(step_ns(1), step_ns(2));
}

std::string ErrorOf(const Hardware& hardware) {
  SmallCase small;
  const auto step = Simulate(small.request, small.plan, hardware);
  EXPECT_EQ(step.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(step.status().message());
}

TEST(SimulatorTest, BadHardwareIsRefusedWithTheNumber) {
  Hardware hardware;
  hardware.layer_noise = std::nan("");
  EXPECT_THAT(ErrorOf(hardware), HasSubstr("layer_noise is nan"));
  hardware = {};
  hardware.rank_slowdown = {1};
  EXPECT_THAT(ErrorOf(hardware), HasSubstr("1 entries"));
  hardware.rank_slowdown = {1, 0.5};
  EXPECT_THAT(ErrorOf(hardware), HasSubstr("rank_slowdown[1] is 0.5"));
  hardware = {};
  hardware.across_nodes.slowdown = 0;
  EXPECT_THAT(ErrorOf(hardware), HasSubstr("across_nodes.slowdown is 0"));
  hardware = {};
  hardware.true_time = TimeModel();
  hardware.true_time->linear_ns_per_token = -1;
  EXPECT_THAT(ErrorOf(hardware), HasSubstr("-1"));
}

TEST(SimulatorTest, APlanForOtherRanksOrSamplesIsRefused) {
  SmallCase small;
  small.plan.micro_batches[0].first_rank = 1;
  EXPECT_FALSE(Simulate(small.request, small.plan, {}).ok());
  small.plan.micro_batches[0].first_rank = 0;
  small.plan.micro_batches[0].samples = {3};
  EXPECT_FALSE(Simulate(small.request, small.plan, {}).ok());
}

TEST(SimulatorTest, StepsThatWouldOverflowAreRefused) {
  PlanRequest request = testing::SimpleRequest(1, 1 << 28, {1 << 28});
  request.time.linear_ns_per_token = 1e9;
  const Plan plan = PlanOf(request, {{{0, 1}, {0}}});
  Hardware hardware;
  hardware.rank_slowdown = {1024};
  hardware.rank_noise = 100;
  const auto step = Simulate(request, plan, hardware);
  EXPECT_EQ(step.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace evenstep::planner
