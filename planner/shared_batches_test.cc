// Quality and planning time of `even` on the shared batches. CPU time, the
// least of several runs: the machine may be busy with other things.

#include "planner/testing/shared_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/models/published_costs.h"
#include "planner/planner.h"
#include "planner/policies.h"
#include "planner/policies/reference_rules.h"
#include "planner/testing/measure.h"

namespace evenstep::planner {
namespace {

constexpr int kRuns = 7;
constexpr double kSortMs = 3.8;  // MsToSort of docs/performance.md's machine
constexpr double kSlack = 1.5;   // what noise may add

struct Gate {
  std::string batch;
  SyncMode sync;
  BlockShape blocks;
  double max_ratio;
  double max_cpu_ms;
};

// The targets themselves. Times are of the machine of docs/performance.md: what
// another needs is told by what it needs for a fixed piece of work.
std::vector<Gate> Gates() {
  constexpr auto kAligned = BlockShape::kAligned;
  constexpr auto kContiguous = BlockShape::kContiguous;
  return {{"ln64", SyncMode::kPerStep, kAligned, 1.006, 2},
          {"wiki64", SyncMode::kPerStep, kAligned, 1.008, 2},
          {"wiki64b", SyncMode::kPerStep, kAligned, 1.012, 2},
          {"ln8", SyncMode::kPerStep, kAligned, 1.003, 2},
          {"ln8s", SyncMode::kPerStep, kAligned, 1.006, 2},
          {"ln64", SyncMode::kPerRound, kAligned, 1.045, 50},
          {"wiki64", SyncMode::kPerRound, kAligned, 1.105, 50},
          {"wiki64b", SyncMode::kPerRound, kAligned, 1.145, 50},
          {"ln8", SyncMode::kPerRound, kAligned, 1.015, 50},
          {"ln8s", SyncMode::kPerRound, kAligned, 1.004, 50},
          {"ln64", SyncMode::kPerRound, kContiguous, 1.025, 60},
          {"wiki64", SyncMode::kPerRound, kContiguous, 1.105, 60},
          {"wiki64b", SyncMode::kPerRound, kContiguous, 1.08, 60}};
}

testing::SharedBatch FindBatch(const std::string& name) {
  for (const auto& batch : testing::SharedBatches()) {
    if (batch.name == name) return batch;
  }
  return {};
}

std::string NameOf(const ::testing::TestParamInfo<Gate>& info) {
  return info.param.batch +
         (info.param.sync == SyncMode::kPerStep ? "PerStep" : "PerRound") +
         (info.param.blocks == BlockShape::kAligned ? "Aligned" : "Contiguous");
}

double CpuMs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

// Sorting numbers in random order: branches and memory, as in planning.
double MsToSort() {
  std::mt19937_64 draw(1);
  std::vector<uint64_t> numbers(1 << 16);
  for (uint64_t& number : numbers) number = draw();
  const double start_ms = CpuMs();
  std::sort(numbers.begin(), numbers.end());
  const double took_ms = CpuMs() - start_ms;
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  return took_ms;
}

class SharedBatchesTest : public ::testing::TestWithParam<Gate> {};

TEST_P(SharedBatchesTest, EvenIsNearTheBoundWithinMilliseconds) {
  const Gate& gate = GetParam();
  auto request =
      testing::LoadSharedBatch(FindBatch(gate.batch), gate.sync, gate.blocks);
  ASSERT_TRUE(request.ok()) << request.status();
  double least_ms = 1e9;
  double sort_ms = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    sort_ms = std::min(sort_ms, MsToSort());
    const double start_ms = CpuMs();
    auto plan = MakePlan(*request);
    least_ms = std::min(least_ms, CpuMs() - start_ms);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(CheckPlan(*request, *plan).ok());
    const double ratio = static_cast<double>(plan->predicted_step_ns) /
                         static_cast<double>(plan->lower_bound_ns);
    EXPECT_LE(ratio, gate.max_ratio);
    RecordProperty("ratio", std::to_string(ratio));
  }
  RecordProperty("cpu_ms", std::to_string(least_ms));
  RecordProperty("sort_ms", std::to_string(sort_ms));
  const double slower = std::max(1.0, sort_ms / kSortMs);
  EXPECT_LE(least_ms, kSlack * slower * gate.max_cpu_ms);
}

// The published rules restated here are in the same run.
TEST(SharedBatchesRivalsTest, NoOtherRowIsFasterOnAnyBatch) {
  int compared = 0;
  for (const auto& batch : testing::SharedBatches()) {
    for (const testing::Objective& objective : testing::Objectives()) {
      auto request =
          testing::LoadSharedBatch(batch, objective.sync, objective.blocks);
      ASSERT_TRUE(request.ok()) << request.status();
      auto even = MakePlan(*request);
      ASSERT_TRUE(even.ok()) << even.status();
      const int64_t even_ns = even->predicted_step_ns;
      for (const ReferenceRow& row : ReferenceRules()) {
        auto plan = MakeReferencePlan(*request, row.rule);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_TRUE(CheckPlan(*request, *plan).ok());
        EXPECT_LE(even_ns, plan->predicted_step_ns) << row.name;
        ++compared;
      }
      for (const PolicyRow& row : Policies()) {
        request->options.policy = row.policy;
        auto plan = MakePlan(*request);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_LE(even_ns, plan->predicted_step_ns) << row.name;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 5 * 4 * 11);
}

// A step with recompute chosen, and with every number of layers fixed.
struct Chosen {
  int64_t step_ns = 0;
  double cpu_ms = 0;
  int64_t single_ns = INT64_MAX;  // the fastest of them
  double single_ms = 0;           // all of them
};

Chosen ChooseRecompute(const PlanRequest& fixed) {
  constexpr int kFewRuns = 3;
  const PlanRequest request = testing::WithRecompute(fixed);
  Chosen chosen;
  const auto plan = testing::Measure(MakePlan, request, kFewRuns);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return chosen;
  chosen.step_ns = plan->plan.predicted_step_ns;
  chosen.cpu_ms = plan->cpu_ms;
  for (const LayerCounts& layers : request.options.recompute_choices) {
    PlanRequest single = request;
    single.options.recompute_choices.clear();
    single.options.recompute_layers = layers;
    const auto one = testing::Measure(MakePlan, single, kFewRuns);
    EXPECT_TRUE(one.ok()) << one.status();
    if (!one.ok()) continue;
    chosen.single_ns = std::min(chosen.single_ns, one->plan.predicted_step_ns);
    chosen.single_ms += one->cpu_ms;
  }
  return chosen;
}

TEST(SharedBatchesRecomputeTest, ChoosingBeatsTheBestSingleModeInRounds) {
  int64_t chosen_ns = 0, single_ns = 0;
  for (const char* name : {"ln64", "wiki64", "wiki64b"}) {
    const auto fixed =
        testing::LoadSharedBatch(FindBatch(name), SyncMode::kPerRound);
    ASSERT_TRUE(fixed.ok()) << fixed.status();
    const Chosen chosen = ChooseRecompute(*fixed);
    EXPECT_LE(chosen.step_ns, chosen.single_ns) << name;
    chosen_ns += chosen.step_ns;
    single_ns += chosen.single_ns;
  }
  EXPECT_LE(chosen_ns * 1.02, single_ns);
}

// Under per_step as well it is never worse, and takes about the time of all its
// modes one by one: the search in rounds, which takes several times as long, is
// tried only where it can gain.
TEST(SharedBatchesRecomputeTest, ChoosingTakesTheTimeOfItsModesPerStep) {
  double chosen_ms = 0, single_ms = 0;
  for (const auto& batch : testing::SharedBatches()) {
    const auto fixed = testing::LoadSharedBatch(batch, SyncMode::kPerStep);
    ASSERT_TRUE(fixed.ok()) << fixed.status();
    const Chosen chosen = ChooseRecompute(*fixed);
    EXPECT_LE(chosen.step_ns, chosen.single_ns) << batch.name;
    chosen_ms += chosen.cpu_ms;
    single_ms += chosen.single_ms;
  }
  EXPECT_LE(chosen_ms, 2 * single_ms + 5);
}

// The model's own memory and degrees, as `evenstep plan --costs` has them.
PlanRequest UnderTheModelsMemory(PlanRequest request) {
  request = testing::WithRecompute(std::move(request));
  const auto costs = FindPublishedCosts("flexsp-7b-a100");
  EXPECT_TRUE(costs.ok()) << costs.status();
  request.model = costs->model;
  request.time = costs->time;
  request.memory = costs->memory;
  return request;
}

int64_t StepNsOf(const PlanRequest& request) {
  const auto plan = MakePlan(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return 0;
  EXPECT_TRUE(CheckPlan(request, *plan).ok()) << CheckPlan(request, *plan);
  return plan->predicted_step_ns;
}

// A slow rank idles where recompute is chosen as well: it costs a 64th and the
// width of what no longer stands side by side, not the fourth that it is slower
// by. No plan around it is faster than what the whole cluster was given: that
// would be a plan for the whole cluster too.
TEST(SharedBatchesSlowRankTest, InRoundsItIdlesWhereRecomputeIsChosen) {
  for (const char* name : {"ln64", "wiki64", "wiki64b"}) {
    const auto fixed =
        testing::LoadSharedBatch(FindBatch(name), SyncMode::kPerRound);
    ASSERT_TRUE(fixed.ok()) << fixed.status();
    PlanRequest request = UnderTheModelsMemory(*fixed);
    const int64_t healthy_ns = StepNsOf(request);
    request.cluster.rank_speed.assign(64, 1.0);
    request.cluster.rank_speed[20] = 0.8;
    const int64_t slow_ns = StepNsOf(request);
    EXPECT_LE(slow_ns, healthy_ns * 1.04) << name;
    EXPECT_GE(slow_ns, healthy_ns) << name;
  }
}

// Every mode's own plan is a start of the search that mixes modes. The longest
// sample alone takes as long as this whole step.
TEST(SharedBatchesRecomputeTest, TheJointSearchGoesOnFromThePlanOfEveryMode) {
  const auto fixed =
      testing::LoadSharedBatch(FindBatch("wiki64"), SyncMode::kPerRound);
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  const auto plan = MakePlan(UnderTheModelsMemory(*fixed));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(testing::RatioOf(*plan), 1.01);
}

TEST(SharedBatchesSlowRankTest, PerStepItCostsLittleIfItIsKnown) {
  const auto request = testing::LoadSharedBatch(FindBatch("ln64"));
  ASSERT_TRUE(request.ok()) << request.status();
  const auto unknowing = MakePlan(*request);
  ASSERT_TRUE(unknowing.ok()) << unknowing.status();
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const PlanRequest truth = testing::WithSlowRank(*request, seed);
    const auto knowing = MakePlan(truth);
    ASSERT_TRUE(knowing.ok()) << knowing.status();
    EXPECT_LE(testing::RatioOf(*knowing), 1.06);
    EXPECT_GT(testing::StepNsUnder(truth, *unknowing),
              1.2 * static_cast<double>(knowing->lower_bound_ns));
  }
}

INSTANTIATE_TEST_SUITE_P(AllFive, SharedBatchesTest,
                         ::testing::ValuesIn(Gates()), NameOf);

}  // namespace
}  // namespace evenstep::planner
