#include "planner/proof/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/planner.h"
#include "planner/proof/checker_formulas.h"
#include "planner/testing/brute_force.h"
#include "planner/testing/random_request.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner {
namespace {

// Second implementation of the destructive bound: floating point, straight from
// 10-planning, nominal speeds, one recompute mode, aligned blocks.

double EntryOf(const std::vector<TimeModel::CollectiveCost>& costs,
               int degree) {
  double chosen = 0;
  for (const auto& entry : costs) {
    chosen = entry.ns_per_token;
    if (entry.degree >= degree) break;
  }
  return chosen;
}

// Whether some aligned block of the degree lies within one node.
bool FitsANode(const PlanRequest& request, int degree) {
  int begin = 0;
  for (int ranks : request.cluster.ranks_per_node) {
    const int first = (begin + degree - 1) / degree * degree;
    if (first + degree <= begin + ranks) return true;
    begin += ranks;
  }
  return false;
}

// Of one sample at a degree, without the micro-batch's fixed cost.
struct Alone {
  double tokens = 0;
  double work_ns = 0;
  double fixed_ns = 0;
};

Alone AloneAt(const PlanRequest& request, const Sample& s, int degree) {
  const TimeModel& time = request.time;
  const auto sharing = *checker::SharingAt(request.model, degree);
  const double d = degree;
  const double patches = static_cast<double>(s.height * s.width);
  const auto frames = static_cast<double>(s.frames);
  Alone alone;
  alone.tokens = static_cast<double>(s.length);
  double spatial_frames = frames, temporal_patches = patches;
  if (sharing.gather > 1) alone.tokens = std::ceil(s.length / (2 * d)) * 2 * d;
  if (degree > 1 && sharing.mode == SpMode::kSwitch) {
    spatial_frames = std::ceil(frames / d) * d;
    temporal_patches = std::ceil(patches / d) * d;
    alone.tokens =
        std::max(spatial_frames * patches, temporal_patches * frames);
  }
  const double pairs[] = {
      request.model.is_video()
          ? spatial_frames * patches * patches
          : static_cast<double>(s.length) * static_cast<double>(s.length),
      temporal_patches * frames * frames};
  const LayerTime text = {
      time.linear_ns_per_token, time.quadratic_ns_per_token2,
      time.attention_ns_per_token, time.sharded_attention_ns_per_token};
  const bool video = request.model.is_video();
  const LayerTime kinds[] = {video ? time.spatial : text,
                             video ? time.temporal : LayerTime()};
  alone.work_ns = time.head_ns_per_token * alone.tokens / d;
  for (int k = 0; k < 2; ++k) {
    const bool whole = degree == 1;
    alone.work_ns += kinds[k].quadratic_ns_per_token2 * pairs[k] / d;
    alone.work_ns +=
        (kinds[k].linear_ns_per_token - kinds[k].attention_ns_per_token) *
        alone.tokens / d;
    alone.work_ns += (whole ? kinds[k].attention_ns_per_token
                            : kinds[k].sharded_attention_ns_per_token) *
                     alone.tokens;
  }
  alone.fixed_ns = static_cast<double>(time.micro_batch_fixed_ns);
  if (degree == 1) return alone;
  const bool crosses = !FitsANode(request, degree);
  const auto& moved = crosses && !time.collective_across.empty()
                          ? time.collective_across
                          : time.collective;
  const auto& gathered =
      crosses && !time.gather_across.empty() ? time.gather_across : time.gather;
  const bool all_to_all =
      sharing.ulysses > 1 || sharing.mode == SpMode::kSwitch;
  if (all_to_all) alone.work_ns += EntryOf(moved, degree) * alone.tokens / d;
  if (sharing.gather > 1) {
    alone.work_ns += EntryOf(gathered, degree) * alone.tokens / sharing.ulysses;
  }
  const int calls =
      sharing.mode == SpMode::kSwitch
          ? 2
          : (sharing.ulysses > 1 ? 8 : 0) + (sharing.gather > 1 ? 4 : 0);
  const double latency_ns =
      static_cast<double>(crosses && time.collective_latency_across_ns > 0
                              ? time.collective_latency_across_ns
                              : time.collective_latency_ns);
  alone.fixed_ns += calls * request.model.layers().total() * latency_ns;
  return alone;
}

double ReferenceBoundNs(const PlanRequest& request) {
  auto possible = [&](double limit) {
    double total = 0;
    for (const Sample& sample : request.samples) {
      double least = INFINITY;
      for (int d : LegalDegrees(request)) {
        MicroBatch batch;
        batch.degree = d;
        const double cap =
            static_cast<double>(checker::TokensARankHolds(request, batch));
        const auto sharing = checker::SharingAt(request.model, d);
        if (sharing->mode == SpMode::kSwitch && d > 1 &&
            (sample.frames < d || sample.patches() < d)) {
          continue;
        }
        const Alone alone = AloneAt(request, sample, d);
        if (alone.tokens > cap * d) continue;
        if (alone.work_ns + alone.fixed_ns > limit) continue;
        least = std::min(
            least, d * alone.work_ns + alone.fixed_ns * alone.tokens / cap);
      }
      total += least;
    }
    return total <= limit * request.cluster.num_ranks();
  };
  double low = 0, high = 1;
  while (!possible(high)) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (possible(middle) ? high : low) = middle;
  }
  return high + request.time.step_fixed_ns;
}

LowerBound BoundOf(const PlanRequest& request) {
  const CostModel costs(request, request.options.recompute_layers);
  return ComputeLowerBound(request, costs, CostTable(request, costs));
}

TEST(BoundsTest, AgreesWithASecondImplementationOnTheSharedBatches) {
  for (const auto& batch : testing::SharedBatches()) {
    auto request = testing::LoadSharedBatch(batch);
    if (!request.ok()) GTEST_SKIP() << request.status();
    const double reference_ns = ReferenceBoundNs(*request);
    EXPECT_NEAR(BoundOf(*request).step_ns / reference_ns, 1, 2e-6)
        << batch.name;
  }
}

TEST(BoundsTest, IsNotBelowASecondImplementationOnRandomRequests) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {64, 40});
    request.cluster.rank_speed.clear();
    request.options.recompute_layers = 0;
    if (!MakePlan(request).ok()) continue;
    const double reference_ns = ReferenceBoundNs(request);
    // Every sample's cost is rounded down to whole nanoseconds, per rank.
    const double rounding_ns = 100 + reference_ns * 3e-6;
    EXPECT_GE(BoundOf(request).step_ns, reference_ns - rounding_ns) << seed;
  }
}

// Modes of sequence parallelism and video on 64 ranks in nodes of 8, where
// every block of more than 8 crosses nodes and no other does.
TEST(BoundsTest, AgreesWithASecondImplementationOn64RanksInEveryMode) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {64, 60});
    request.cluster = {std::vector<int>(8, 8), {}};
    request = seed % 2 == 0 ? testing::WithSpModes(request, seed)
                            : testing::AsVideo(request, seed);
    request.options.recompute_layers = 0;
    request.options.recompute_choices.clear();
    request.options.policy = Policy::kDcpIntra;
    if (!MakePlan(request).ok()) continue;
    ++compared;
    const double reference_ns = ReferenceBoundNs(request);
    const double rounding_ns = 1000 + reference_ns * 3e-6;
    EXPECT_GE(BoundOf(request).step_ns, reference_ns - rounding_ns) << seed;
    if (BoundOf(request).kind == BoundKind::kDestructive) {
      EXPECT_LE(BoundOf(request).step_ns, reference_ns + rounding_ns) << seed;
    }
  }
  EXPECT_GT(compared, 150);
}

TEST(BoundsTest, NeverExceedsTheOptimumOfSmallVideoCases) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlanRequest request =
        testing::AsVideo(testing::RandomRequest(seed, {4, 4}), seed);
    if (seed % 3 == 1) request.options.sync = SyncMode::kPerRound;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 200);
}

TEST(BoundsTest, NeverExceedsTheOptimumInAnyModeOfSequenceParallelism) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlanRequest request =
        testing::WithSpModes(testing::RandomRequest(seed, {4, 4}), seed);
    if (seed % 3 == 1) request.options.sync = SyncMode::kPerRound;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 150);
}

TEST(BoundsTest, NeverExceedsTheOptimumOfSmallCases) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const PlanRequest request = testing::RandomRequest(seed, {4, 4});
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 200);
}

TEST(BoundsTest, NeverExceedsTheOptimumOfSmallStepsInRounds) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {4, 4});
    request.options.sync = SyncMode::kPerRound;
    request.options.blocks =
        seed % 2 == 0 ? BlockShape::kAligned : BlockShape::kContiguous;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 200);
}

TEST(BoundsTest, NeverExceedsTheOptimumWhereRecomputeIsChosen) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlanRequest request =
        testing::WithRecomputeChoices(testing::RandomRequest(seed, {4, 4}));
    if (seed % 2 == 1) request.options.sync = SyncMode::kPerRound;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 150);
}

TEST(BoundsTest, CountsTheRoundsThatMemoryForces) {
  // 30 tokens of 4 ranks with room for 3 each: three rounds at 1 s; 30 s of
  // work spread over four ranks.
  PlanRequest request = testing::SimpleRequest(4, 3, {10, 10, 10});
  request.time.linear_ns_per_token = 1e9;
  request.time.micro_batch_fixed_ns = 1'000'000'000;
  request.options.sync = SyncMode::kPerRound;
  EXPECT_EQ(BoundOf(request).step_ns, 10'500'000'000);
}

TEST(BoundsTest, NamesTheAreaWhereRanksAreSimplyFull) {
  std::vector<int64_t> lengths(64, 10);
  const LowerBound bound = BoundOf(testing::SimpleRequest(2, 1000, lengths));
  EXPECT_EQ(bound.kind, BoundKind::kArea);
  EXPECT_EQ(bound.step_ns, 320'000'000);
}

TEST(BoundsTest, NamesTheLongestSampleWhereItDecides) {
  PlanRequest request = testing::SimpleRequest(4, 1000, {100, 1, 1});
  request.model.heads = request.model.kv_heads = 1;
  const LowerBound bound = BoundOf(request);
  EXPECT_EQ(bound.kind, BoundKind::kLongest);
  EXPECT_EQ(bound.step_ns, 100'000'000);
}

TEST(BoundsTest, NamesMemoryWhereMicroBatchesAreForced) {
  // Three samples of 6 under a cap of 10 on two ranks: 18 tokens are two
  // places, but 22 tokens would be three, so one rank runs two.
  PlanRequest request = testing::SimpleRequest(2, 10, {8, 7, 7});
  request.time.linear_ns_per_token = 0;
  request.time.micro_batch_fixed_ns = 1'000'000;
  const LowerBound bound = BoundOf(request);
  EXPECT_EQ(bound.kind, BoundKind::kMemory);
  EXPECT_EQ(bound.step_ns, 2'000'000);
}

TEST(BoundsTest, NamesTheDestructiveBoundWhereLongSamplesMustSpread) {
  // Alone at degree 1 the long sample takes 1 s; spread over four ranks it
  // costs more rank-time, which leaves less for the others.
  PlanRequest request =
      testing::SimpleRequest(4, 1000, {1000, 500, 500, 500, 500});
  request.time.collective = {{2, 2e5}, {4, 4e5}};
  EXPECT_EQ(BoundOf(request).kind, BoundKind::kDestructive);
}

}  // namespace
}  // namespace evenstep::planner
