// The bound against a second implementation of it, both ways: neither proves
// more than the other; and both against the optimum of small steps.

#include "planner/testing/reference_bound.h"

#include <gtest/gtest.h>

#include "planner/costs/fits.h"
#include "planner/proof/bounds.h"
#include "planner/testing/brute_force.h"
#include "planner/testing/random_request.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner {
namespace {

double BoundNs(const PlanRequest& request) {
  const CostModel costs(request, request.options.recompute_layers);
  return static_cast<double>(
      ComputeLowerBound(request, costs, CostTable(request, costs)).step_ns);
}

// What is asked of a random request.
struct Kind {
  const char* name;
  SyncMode sync = SyncMode::kPerStep;
  BlockShape blocks = BlockShape::kAligned;
  bool slow_ranks = false;
  enum { kOneMode, kChoices, kSpModes, kVideo } model = kOneMode;
};

constexpr SyncMode kPerStep = SyncMode::kPerStep;
constexpr SyncMode kPerRound = SyncMode::kPerRound;
constexpr BlockShape kAligned = BlockShape::kAligned;
constexpr BlockShape kContiguous = BlockShape::kContiguous;

const Kind kKinds[] = {
    {"per_step", kPerStep, kAligned, false, Kind::kOneMode},
    {"per_step, slow ranks", kPerStep, kAligned, true, Kind::kOneMode},
    {"per_step, recompute", kPerStep, kAligned, false, Kind::kChoices},
    {"per_step, recompute, slow", kPerStep, kAligned, true, Kind::kChoices},
    {"per_step, modes, slow", kPerStep, kAligned, true, Kind::kSpModes},
    {"per_step, video, slow", kPerStep, kAligned, true, Kind::kVideo},
    {"per_step, contiguous, slow", kPerStep, kContiguous, true, Kind::kSpModes},
    {"per_round", kPerRound, kAligned, false, Kind::kOneMode},
    {"per_round, slow ranks", kPerRound, kAligned, true, Kind::kOneMode},
    {"per_round, recompute", kPerRound, kAligned, false, Kind::kChoices},
    {"per_round, recompute, slow", kPerRound, kAligned, true, Kind::kChoices},
    {"per_round, modes, slow", kPerRound, kAligned, true, Kind::kSpModes},
    {"per_round, video, slow", kPerRound, kAligned, true, Kind::kVideo},
    {"per_round, contiguous", kPerRound, kContiguous, false, Kind::kSpModes},
    {"per_round, contiguous, slow", kPerRound, kContiguous, true,
     Kind::kChoices},
};

PlanRequest RequestOf(const Kind& kind, uint64_t seed,
                      const testing::RequestLimits& limits) {
  PlanRequest request = testing::RandomRequest(seed, limits);
  request.options.sync = kind.sync;
  request.options.blocks = kind.blocks;
  request.cluster.rank_speed.clear();
  if (kind.slow_ranks) {
    request.cluster.rank_speed.assign(request.cluster.num_ranks(), 1.0);
    for (size_t k = seed % 5; k < request.cluster.rank_speed.size(); k += 5) {
      request.cluster.rank_speed[k] = 0.5 + 0.1 * static_cast<double>(k % 7);
    }
  }
  switch (kind.model) {
    case Kind::kOneMode:
      return request;
    case Kind::kChoices:
      return testing::WithRecomputeChoices(request);
    case Kind::kSpModes:
      return testing::WithSpModes(request, seed);
    case Kind::kVideo:
      return testing::AsVideo(request, seed);
  }
  return request;
}

TEST(ReferenceBoundTest, AgreesOnTheSharedBatchesWhateverIsAsked) {
  for (const auto& batch : testing::SharedBatches()) {
    for (SyncMode sync : {kPerStep, kPerRound}) {
      for (BlockShape blocks : {kAligned, kContiguous}) {
        auto request = testing::LoadSharedBatch(batch, sync, blocks);
        ASSERT_TRUE(request.ok()) << request.status();
        EXPECT_NEAR(BoundNs(*request) / testing::ReferenceBoundNs(*request), 1,
                    2e-6)
            << batch.name;
      }
    }
  }
}

// 64 ranks in 8 nodes: every block of more than 8 crosses nodes.
TEST(ReferenceBoundTest, AgreesBothWaysOn64RanksInEveryKind) {
  for (const Kind& kind : kKinds) {
    int compared = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      PlanRequest request = RequestOf(kind, seed, {64, 60});
      request.cluster.ranks_per_node.assign(8, 8);
      if (kind.slow_ranks) {
        request.cluster.rank_speed.assign(64, 1.0);
        request.cluster.rank_speed[seed % 64] = 0.8;
        request.cluster.rank_speed[(seed * 7 + 1) % 64] = 0.6;
      }
      if (!CheckSamplesFit(request).ok()) continue;
      ++compared;
      const double reference_ns = testing::ReferenceBoundNs(request);
      // Costs are rounded down to whole nanoseconds, speeds to 20 bits.
      EXPECT_NEAR(BoundNs(request), reference_ns, 1000 + reference_ns * 5e-6)
          << kind.name << ", seed " << seed;
    }
    EXPECT_GT(compared, 25) << kind.name;
  }
}

TEST(ReferenceBoundTest, NeitherExceedsTheOptimumOfSmallSteps) {
  for (const Kind& kind : kKinds) {
    // Where order matters brute force does not know the optimum.
    if (kind.sync == kPerStep && kind.blocks == kContiguous) continue;
    int solved = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const PlanRequest request = RequestOf(kind, seed, {4, 4});
      auto optimum_ns = testing::BruteForceStepNs(request);
      if (!optimum_ns.ok()) continue;
      ++solved;
      const auto optimum = static_cast<double>(*optimum_ns);
      EXPECT_LE(BoundNs(request), optimum) << kind.name << ", seed " << seed;
      EXPECT_LE(testing::ReferenceBoundNs(request), optimum * (1 + 5e-6) + 1000)
          << kind.name << ", seed " << seed;
    }
    EXPECT_GT(solved, 30) << kind.name;
  }
}

// The comparison bites: a bound that forgets the slow rank, or a mode, is off
// by more than rounding.
TEST(ReferenceBoundTest, ABoundThatForgetsSomethingIsFarOff) {
  PlanRequest request =
      testing::SimpleRequest(8, 1000, std::vector<int64_t>(64, 100));
  PlanRequest nominal = request;
  request.cluster.rank_speed.assign(8, 1.0);
  request.cluster.rank_speed[3] = 0.5;
  EXPECT_GT(testing::ReferenceBoundNs(request), 1.05 * BoundNs(nominal));
  EXPECT_NEAR(testing::ReferenceBoundNs(request) / BoundNs(request), 1, 1e-5);
}

// What claims too much is caught: by the optimum, wherever the bound reaches
// it, and by the reference always.
TEST(ReferenceBoundTest, ABoundThatIsTooHighExceedsTheOptimum) {
  for (SyncMode sync : {kPerStep, kPerRound}) {
    PlanRequest request = testing::SimpleRequest(4, 1000, {900, 900, 900, 900});
    request.options.sync = sync;
    const auto optimum_ns = testing::BruteForceStepNs(request);
    ASSERT_TRUE(optimum_ns.ok()) << optimum_ns.status();
    const auto optimum = static_cast<double>(*optimum_ns);
    EXPECT_LE(BoundNs(request), optimum);
    EXPECT_GT(BoundNs(request), 0.99 * optimum);
    PlanRequest dearer = request;
    dearer.time.linear_ns_per_token *= 1.02;
    dearer.time.quadratic_ns_per_token2 *= 1.02;
    const double planted = BoundNs(dearer);
    EXPECT_GT(planted, optimum);
    const double reference_ns = testing::ReferenceBoundNs(request);
    EXPECT_GT(planted - reference_ns, 1000 + reference_ns * 5e-6);
  }
}

}  // namespace
}  // namespace evenstep::planner
