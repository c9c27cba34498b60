// The checker's formulas against the planner's, term by term: random models,
// costs, memories and micro-batches, in plans or not, so that every term counts
// in some of them. Both were written from the same description; the examples of
// costs/*_test.cc, worked out by hand, say that it is the right one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/costs/memory_model.h"
#include "planner/evaluate.h"
#include "planner/limits.h"
#include "planner/proof/checker_formulas.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  int Between(int low, int high) {
    return low + static_cast<int>(engine_() % (high - low + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }
  // Often 0, else up to `most` with a fraction.
  double Cost(double most) {
    return OneIn(4) ? 0 : most * Between(1, 1 << 20) / (1 << 20);
  }
  int64_t Bytes(int most) { return OneIn(4) ? 0 : Between(1, most); }

 private:
  std::mt19937_64 engine_;
};

ModelShape RandomModel(Dice& dice) {
  constexpr int kHeads[][2] = {{16, 16}, {32, 8}, {40, 8}, {12, 6},
                               {28, 4},  {6, 6},  {7, 1},  {6, 2}};
  ModelShape model;
  const auto& heads = kHeads[dice.Between(0, 7)];
  model.heads = heads[0];
  model.kv_heads = heads[1];
  model.expand_kv_heads = dice.OneIn(3);
  model.num_layers = dice.Between(1, 9);
  const bool video = dice.OneIn(2);
  if (video) {
    model.spatial_layers = dice.Between(0, 5);
    model.temporal_layers = dice.Between(model.spatial_layers == 0 ? 1 : 0, 5);
    model.max_switch_degree = dice.OneIn(2) ? 0 : dice.Between(1, 6);
  }
  const std::vector<SpMode> modes =
      video ? std::vector<SpMode>{SpMode::kUlysses, SpMode::kSwitch}
            : std::vector<SpMode>{SpMode::kUlysses, SpMode::kKvGather,
                                  SpMode::kBoth};
  for (SpMode mode : modes) {
    if (dice.OneIn(2)) model.sp_modes.push_back(mode);
  }
  if (dice.OneIn(5)) model.forced_degrees = {1, 2, 3, 6, 8};
  return model;
}

std::vector<TimeModel::CollectiveCost> RandomList(Dice& dice) {
  std::vector<TimeModel::CollectiveCost> costs;
  for (int degree = 2; degree < 12; degree += dice.Between(1, 4)) {
    if (!dice.OneIn(3)) costs.push_back({degree, dice.Cost(3e5)});
  }
  return costs;
}

LayerTime RandomLayerTime(Dice& dice) {
  LayerTime time = {dice.Cost(2e5), dice.Cost(30), 0, dice.Cost(1e5)};
  time.attention_ns_per_token = dice.Cost(time.linear_ns_per_token);
  return time;
}

TimeModel RandomTime(Dice& dice) {
  TimeModel time;
  const LayerTime text = RandomLayerTime(dice);
  time.linear_ns_per_token = text.linear_ns_per_token;
  time.quadratic_ns_per_token2 = text.quadratic_ns_per_token2;
  time.attention_ns_per_token = text.attention_ns_per_token;
  time.sharded_attention_ns_per_token = text.sharded_attention_ns_per_token;
  time.spatial = RandomLayerTime(dice);
  time.temporal = RandomLayerTime(dice);
  time.head_ns_per_token = dice.Cost(2e4);
  time.micro_batch_fixed_ns = dice.Bytes(1 << 20);
  time.collective_latency_ns = dice.Bytes(1 << 17);
  time.collective_latency_across_ns = dice.OneIn(2) ? 0 : dice.Bytes(1 << 18);
  time.collective = RandomList(dice);
  time.gather = RandomList(dice);
  if (dice.OneIn(2)) time.collective_across = RandomList(dice);
  if (dice.OneIn(2)) time.gather_across = RandomList(dice);
  return time;
}

LayerMemory RandomLayerMemory(Dice& dice) {
  return {dice.Bytes(60), dice.Bytes(20), dice.Bytes(90)};
}

MemoryModel RandomMemory(Dice& dice) {
  MemoryModel memory;
  const LayerMemory text = RandomLayerMemory(dice);
  memory.layer_bytes_per_token = text.layer_bytes_per_token;
  memory.kept_bytes_per_token = text.kept_bytes_per_token;
  memory.backward_bytes_per_token = text.backward_bytes_per_token;
  memory.spatial = RandomLayerMemory(dice);
  memory.temporal = RandomLayerMemory(dice);
  memory.head_bytes_per_token = dice.Bytes(300);
  memory.gathered_bytes_per_token = dice.Bytes(40);
  memory.kv_head_bytes_per_token = dice.Bytes(5);
  if (dice.OneIn(3)) memory.tokens_per_rank = dice.Between(1, 4096);
  memory.activation_bytes = dice.Between(1, 1 << 22);
  return memory;
}

Sample RandomSample(Dice& dice, int64_t id, bool video) {
  Sample sample;
  sample.id = id;
  sample.length = dice.Between(1, dice.OneIn(2) ? 40 : 3000);
  if (video) {
    sample.frames = dice.Between(1, 20);
    sample.height = dice.Between(1, 9);
    sample.width = dice.Between(1, 9);
    sample.length = sample.frames * sample.height * sample.width;
  }
  sample.trained_tokens = sample.length;
  return sample;
}

PlanRequest RandomRequest(Dice& dice) {
  PlanRequest request;
  for (int nodes = dice.Between(1, 4); nodes > 0; --nodes) {
    request.cluster.ranks_per_node.push_back(dice.Between(1, 4));
  }
  const int world = request.cluster.num_ranks();
  if (dice.OneIn(3)) {
    for (int rank = 0; rank < world; ++rank) {
      request.cluster.rank_speed.push_back(dice.Between(1, 3000) / 1000.0);
    }
  }
  request.model = RandomModel(dice);
  request.time = RandomTime(dice);
  request.memory = RandomMemory(dice);
  const int num_samples = dice.Between(1, 4);
  for (int i = 0; i < num_samples; ++i) {
    request.samples.push_back(
        RandomSample(dice, 100 + i, request.model.is_video()));
  }
  return request;
}

// A micro-batch of any block; nothing if its degree is not legal.
std::optional<MicroBatch> RandomBatch(const PlanRequest& request, Dice& dice) {
  const int world = request.cluster.num_ranks();
  MicroBatch batch;
  batch.degree = dice.Between(1, world);
  batch.first_rank = dice.Between(0, world - batch.degree);
  const auto split = FindSplit(request.model, batch.degree);
  const auto sharing = checker::SharingAt(request.model, batch.degree);
  EXPECT_EQ(split.has_value(), sharing.has_value());
  if (!split.has_value() || !sharing.has_value()) return std::nullopt;
  EXPECT_EQ(split->mode, sharing->mode);
  EXPECT_EQ(split->ulysses_degree, sharing->ulysses);
  EXPECT_EQ(split->gather_degree, sharing->gather);
  batch.sp_mode = split->mode;
  batch.ulysses_degree = split->ulysses_degree;
  for (size_t i = 0; i < request.samples.size(); ++i) {
    if (i == 0 || dice.OneIn(2)) batch.samples.push_back(static_cast<int>(i));
  }
  const LayerCounts layers = request.model.layers();
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    batch.recompute_layers.of_kind[kind] =
        dice.OneIn(3) ? 0 : dice.Between(0, layers[kind]);
  }
  return batch;
}

// Whether both agree on tokens; only then the rest may be asked.
bool TokensAgree(const PlanRequest& request, MicroBatch* batch) {
  const SequenceSplit split = SplitFor(request.model, batch->degree);
  const bool shared = std::all_of(
      batch->samples.begin(), batch->samples.end(),
      [&](int index) { return CanShare(split, request.samples[index]); });
  const auto padded = checker::PaddedTokensOf(request, *batch);
  EXPECT_EQ(padded.has_value(), shared);
  if (!padded.has_value() || !shared) return false;
  const BatchSize size = SizeOfBatch(request, batch->degree, batch->samples);
  EXPECT_EQ(*padded, PaddedTokens(size.tokens, batch->degree));
  batch->padded_tokens = *padded;
  return true;
}

TEST(FormulasTest, CheckerAndPlannerAgreeOnEveryMicroBatch) {
  int num_compared = 0;
  for (uint64_t seed = 0; seed < 30'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Dice dice(seed);
    const PlanRequest request = RandomRequest(dice);
    auto batch = RandomBatch(request, dice);
    if (!batch.has_value() || !TokensAgree(request, &*batch)) continue;
    ++num_compared;
    const LayerCounts& recompute = batch->recompute_layers;
    const CostModel costs(request, recompute);
    const Block block{batch->first_rank, batch->degree};
    const BatchSize size = SizeOfBatch(request, batch->degree, batch->samples);
    EXPECT_EQ(checker::NanosecondsOf(request, *batch),
              CostModel::AtSpeed(costs.MicroBatchNs(costs.ClassOf(block), size),
                                 costs.BlockSpeed(block)));
    EXPECT_EQ(static_cast<int64_t>(checker::BytesPerTokenOf(request, *batch)),
              BytesPerToken(request, recompute, batch->degree));
    EXPECT_EQ(
        static_cast<int64_t>(checker::BytesOf(request, *batch)),
        PredictBytes(request, recompute, batch->degree, batch->padded_tokens));
    EXPECT_EQ(checker::TokensARankHolds(request, *batch),
              TokensPerRank(request, recompute, batch->degree));
  }
  EXPECT_GT(num_compared, 15'000);
}

// One sample of 4,096 tokens on one rank.
MicroBatch WholeBatch() {
  MicroBatch batch;
  batch.samples = {0};
  batch.padded_tokens = 4096;
  return batch;
}

TEST(FormulasTest, BytesBeyond63BitsAreTheMostThatFits) {
  PlanRequest request = testing::SimpleRequest(1, 4096, {4096});
  request.model.num_layers = kMaxLayers;
  request.memory.layer_bytes_per_token = kMaxBytesPerToken;
  EXPECT_EQ(static_cast<int64_t>(checker::BytesOf(request, WholeBatch())),
            INT64_MAX);
  EXPECT_EQ(PredictBytes(request, 0, 1, 4096), INT64_MAX);
}

TEST(FormulasTest, NoMemoryHoldsMoreTokensThanTheLimit) {
  PlanRequest request = testing::SimpleRequest(1, 0, {4096});
  request.memory.activation_bytes = kMaxActivationBytes;
  request.memory.layer_bytes_per_token = 1;
  EXPECT_EQ(checker::TokensARankHolds(request, WholeBatch()),
            kMaxTokensPerRank);
  EXPECT_EQ(TokensPerRank(request, 0), kMaxTokensPerRank);
}

}  // namespace
}  // namespace evenstep::planner
