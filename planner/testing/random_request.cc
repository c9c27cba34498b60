#include "planner/testing/random_request.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/costs/cost_limits.h"

namespace evenstep::planner::testing {
namespace {

// <random>'s engines are portable, its distributions are not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() %
                                      static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }
  double Fraction() { return Between(0, 1 << 20) / double{1 << 20}; }

 private:
  std::mt19937_64 engine_;
};

Cluster RandomCluster(Dice& dice, int max_ranks) {
  Cluster cluster;
  int ranks = static_cast<int>(dice.Between(1, max_ranks));
  if (dice.OneIn(2)) ranks = 1 << static_cast<int>(std::log2(ranks));
  while (ranks > 0) {
    const int node = static_cast<int>(dice.Between(1, ranks));
    cluster.ranks_per_node.push_back(node);
    ranks -= node;
  }
  if (dice.OneIn(4)) {
    for (int rank = 0; rank < cluster.num_ranks(); ++rank) {
      cluster.rank_speed.push_back(dice.OneIn(4) ? 0.5 + dice.Fraction() : 1);
    }
  }
  return cluster;
}

ModelShape RandomModel(Dice& dice) {
  constexpr int kHeads[][2] = {{16, 16}, {32, 8}, {40, 8}, {12, 12},
                               {28, 4},  {6, 6},  {7, 1},  {64, 4}};
  ModelShape model;
  const auto& heads = kHeads[dice.Between(0, 7)];
  model.heads = heads[0];
  model.kv_heads = heads[1];
  model.num_layers = static_cast<int>(dice.Between(1, 40));
  model.width = 64 * model.heads;
  if (dice.OneIn(5)) model.forced_degrees = {1, 2, 4, 8, 16, 5, 6};
  return model;
}

TimeModel RandomTime(Dice& dice) {
  TimeModel time;
  if (dice.OneIn(20)) return time;  // everything is free, nearly
  time.micro_batch_fixed_ns = dice.OneIn(3) ? 0 : dice.Between(0, 50'000'000);
  time.linear_ns_per_token = dice.OneIn(8) ? 0 : dice.Fraction() * 2e5;
  time.quadratic_ns_per_token2 = dice.OneIn(3) ? 0 : dice.Fraction() * 20;
  time.collective_latency_ns = dice.OneIn(2) ? 0 : dice.Between(0, 200'000);
  time.step_fixed_ns = dice.OneIn(2) ? 0 : dice.Between(0, 100'000'000);
  for (int degree = 2; degree <= 16 && !dice.OneIn(5); degree *= 2) {
    time.collective.push_back({degree, dice.Fraction() * 1e5});
  }
  return time;
}

// Drawn costs may all be 0, which no request may have.
void CostSomething(PlanRequest& request) {
  if (IsFree(request.time, request.model)) {
    request.time.micro_batch_fixed_ns = 1;
  }
}

int64_t RandomLength(Dice& dice, int law, int64_t longest) {
  if (law == 0) return dice.Between(1, longest);
  if (law == 1) return dice.Between(1, std::min<int64_t>(longest, 4));
  if (law == 2) return longest;
  const double tail = std::pow(1 - dice.Fraction() + 1e-3, -0.8) * 0.02;
  return std::clamp<int64_t>(static_cast<int64_t>(tail * longest), 1, longest);
}

}  // namespace

PlanRequest RandomRequest(uint64_t seed, const RequestLimits& limits) {
  Dice dice(seed);
  PlanRequest request;
  request.cluster = RandomCluster(dice, limits.max_ranks);
  request.model = RandomModel(dice);
  request.time = RandomTime(dice);
  CostSomething(request);
  request.memory.tokens_per_rank = dice.Between(1, 4096);
  const int64_t capacity =
      request.memory.tokens_per_rank * request.cluster.num_ranks();
  const int64_t longest = std::max<int64_t>(
      1, dice.OneIn(3) ? capacity : capacity / dice.Between(1, 16));
  const int law = static_cast<int>(dice.Between(0, 3));
  const int64_t num_samples = dice.Between(1, limits.max_samples);
  for (int64_t i = 0; i < num_samples; ++i) {
    Sample sample;
    sample.id = 1000 - 3 * i + (i % 2 == 0 ? 5000 : 0);
    sample.length = RandomLength(dice, law, longest);
    sample.trained_tokens =
        dice.OneIn(4) ? dice.Between(0, sample.length) : sample.length;
    request.samples.push_back(sample);
  }
  request.samples[0].trained_tokens = 1;
  if (dice.OneIn(3)) request.run.max_length = longest;
  if (dice.OneIn(3)) {
    request.options.recompute_layers =
        static_cast<int>(dice.Between(0, request.model.num_layers));
  }
  return request;
}

PlanRequest WithRecomputeChoices(PlanRequest request) {
  constexpr int64_t kLayerBytes = 34;
  const int layers = request.model.num_layers;
  request.memory = {
      .tokens_per_rank = 0,
      .activation_bytes = request.memory.tokens_per_rank * layers * kLayerBytes,
      .layer_bytes_per_token = kLayerBytes,
      .kept_bytes_per_token = 2,
      .backward_bytes_per_token = 12,
      .head_bytes_per_token = 0};
  request.options.recompute_layers = 0;
  request.options.recompute_choices = {0, layers / 2, layers};
  return request;
}

namespace {

std::vector<TimeModel::CollectiveCost> RandomCollective(Dice& dice,
                                                        double most_ns) {
  std::vector<TimeModel::CollectiveCost> costs;
  for (int degree = 2; degree <= 16 && !dice.OneIn(4); degree *= 2) {
    costs.push_back({degree, dice.Fraction() * most_ns});
  }
  return costs;
}

void DrawNetwork(Dice& dice, TimeModel& time) {
  time.gather = RandomCollective(dice, 2e4);
  if (dice.OneIn(2)) time.collective_across = RandomCollective(dice, 3e5);
  if (dice.OneIn(2)) time.gather_across = RandomCollective(dice, 6e4);
  if (dice.OneIn(2)) time.collective_latency_across_ns = dice.Between(0, 9999);
}

LayerTime RandomLayerTime(Dice& dice) {
  LayerTime time;
  time.linear_ns_per_token = dice.Fraction() * 1e5;
  time.quadratic_ns_per_token2 = dice.OneIn(4) ? 0 : dice.Fraction() * 20;
  if (dice.OneIn(2)) return time;
  time.attention_ns_per_token = time.linear_ns_per_token * dice.Fraction();
  time.sharded_attention_ns_per_token = dice.Fraction() * 1e5;
  return time;
}

// A clip of at most about `most` tokens.
Sample RandomClip(Dice& dice, int64_t most) {
  Sample clip;
  clip.frames = dice.OneIn(4) ? 1 : dice.Between(1, 40);
  clip.frames = std::min(clip.frames, most);
  const int64_t most_patches = std::max<int64_t>(1, most / clip.frames);
  clip.height = dice.Between(1, std::min<int64_t>(30, most_patches));
  clip.width =
      dice.Between(1, std::max<int64_t>(1, most_patches / clip.height));
  clip.length = clip.frames * clip.height * clip.width;
  return clip;
}

}  // namespace

PlanRequest WithSpModes(PlanRequest request, uint64_t seed) {
  Dice dice(seed * 7919 + 1);
  for (SpMode mode : {SpMode::kUlysses, SpMode::kKvGather, SpMode::kBoth}) {
    if (dice.OneIn(2)) request.model.sp_modes.push_back(mode);
  }
  request.model.expand_kv_heads = dice.OneIn(3);
  TimeModel& time = request.time;
  DrawNetwork(dice, time);
  time.head_ns_per_token = dice.Fraction() * 2e4;
  time.attention_ns_per_token = time.linear_ns_per_token * dice.Fraction();
  time.sharded_attention_ns_per_token = dice.Fraction() * 5e4;
  request.memory.gathered_bytes_per_token =
      dice.Between(0, dice.OneIn(3) ? 60 : 8);
  // Else hardly any plan gathers copies of heads.
  if (dice.OneIn(6)) {
    request.model.sp_modes = {SpMode::kBoth};
    request.model.kv_heads = 1;
  }
  if (request.memory.layer_bytes_per_token > 0) {
    request.memory.kv_head_bytes_per_token =
        request.memory.layer_bytes_per_token / (4 * request.model.kv_heads);
  }
  return request;
}

PlanRequest AsVideo(PlanRequest request, uint64_t seed) {
  Dice dice(seed * 104729 + 2);
  ModelShape& model = request.model;
  model.spatial_layers = static_cast<int>(dice.Between(0, 12));
  model.temporal_layers =
      static_cast<int>(dice.Between(model.spatial_layers == 0 ? 1 : 0, 12));
  if (dice.OneIn(3)) model.sp_modes.push_back(SpMode::kUlysses);
  if (model.sp_modes.empty() || dice.OneIn(2)) {
    model.sp_modes.push_back(SpMode::kSwitch);
  }
  if (dice.OneIn(2)) model.max_switch_degree = 1 << dice.Between(0, 4);
  DrawNetwork(dice, request.time);
  request.time.spatial = RandomLayerTime(dice);
  request.time.temporal = RandomLayerTime(dice);
  const int64_t most = request.memory.tokens_per_rank *
                       (dice.OneIn(3) ? request.cluster.num_ranks() : 1);
  for (Sample& sample : request.samples) {
    const int64_t id = sample.id;
    sample = RandomClip(dice, most);
    sample.id = id;
    sample.trained_tokens = sample.length;
  }
  request.run.max_length = 0;
  request.options.recompute_layers = 0;
  if (dice.OneIn(2)) return request;
  const LayerCounts all = model.layers();
  request.options.recompute_choices = {
      LayerCounts(0, 0), LayerCounts(all[0], 0), LayerCounts(0, all[1]), all};
  MemoryModel& memory = request.memory;
  memory.spatial = {30, 2, 5};
  memory.temporal = {20, 3, 4};
  memory.head_bytes_per_token = 5;
  memory.activation_bytes =
      memory.tokens_per_rank * (30 * all[0] + 20 * all[1] + 5);
  memory.tokens_per_rank = 0;
  return request;
}

PlanRequest SimpleRequest(int num_ranks, int64_t tokens_per_rank,
                          const std::vector<int64_t>& lengths) {
  PlanRequest request;
  request.cluster.ranks_per_node = {num_ranks};
  request.model.heads = 64;
  request.model.kv_heads = 64;
  request.time.linear_ns_per_token = 1e6;
  request.memory.tokens_per_rank = tokens_per_rank;
  for (size_t i = 0; i < lengths.size(); ++i) {
    request.samples.push_back(
        {static_cast<int64_t>(i), lengths[i], lengths[i]});
  }
  return request;
}

}  // namespace evenstep::planner::testing
