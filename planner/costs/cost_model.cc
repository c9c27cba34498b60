#include "planner/costs/cost_model.h"

#include <algorithm>
#include <cmath>

namespace evenstep::planner {
namespace {

// Scaling by a power of two is exact, so only the final rounding counts.
int64_t ToFixedPoint(double value, int fraction_bits) {
  return std::llround(std::ldexp(value, fraction_bits));
}

int64_t ToFixedPoint(double ns) { return ToFixedPoint(ns, kCostFractionBits); }

// Rounded down; the 128-bit division is slow, and rarely needed.
int64_t DivideWork(int128 work, int64_t divisor) {
  if (work <= INT64_MAX) return static_cast<int64_t>(work) / divisor;
  return static_cast<int64_t>(work / divisor);
}

}  // namespace

int64_t CallsPerLayer(const SequenceSplit& split) {
  if (split.mode == SpMode::kSwitch) return 1;
  return (split.ulysses_degree > 1 ? 4 : 0) + (split.gather_degree > 1 ? 2 : 0);
}

int64_t ToFixedSpeed(double speed) {
  return ToFixedPoint(speed, kSpeedFractionBits);
}

CostModel::KindCosts CostModel::ToKindCosts(const LayerTime& time) {
  KindCosts costs;
  costs.attention = ToFixedPoint(time.attention_ns_per_token);
  costs.linear = ToFixedPoint(time.linear_ns_per_token) - costs.attention;
  costs.sharded_attention = ToFixedPoint(time.sharded_attention_ns_per_token);
  costs.quadratic = ToFixedPoint(time.quadratic_ns_per_token2);
  return costs;
}

CostModel::Coefficients CostModel::ToCoefficients(
    const std::vector<TimeModel::CollectiveCost>& costs) {
  Coefficients coefficients;
  for (const auto& entry : costs) {
    coefficients.push_back({entry.degree, ToFixedPoint(entry.ns_per_token)});
  }
  return coefficients;
}

CostModel::CostModel(const PlanRequest& request,
                     const LayerCounts& recompute_layers)
    : model_(request.model),
      num_kinds_(request.model.num_kinds()),
      layers_(request.model.layers()),
      recompute_layers_(recompute_layers),
      head_(ToFixedPoint(request.time.head_ns_per_token)),
      micro_batch_fixed_ns_(request.time.micro_batch_fixed_ns),
      collective_latency_ns_(request.time.collective_latency_ns),
      collective_latency_across_ns_(request.time.collective_latency_across_ns),
      collective_(ToCoefficients(request.time.collective)),
      collective_across_(ToCoefficients(request.time.collective_across)),
      gather_(ToCoefficients(request.time.gather)),
      gather_across_(ToCoefficients(request.time.gather_across)),
      nodes_(request.time, request.cluster) {
  const LayerTimes times = request.time.layers(model_.is_video());
  kinds_ = {ToKindCosts(times[0]), ToKindCosts(times[1])};
  if (collective_latency_across_ns_ == 0) {
    collective_latency_across_ns_ = collective_latency_ns_;
  }
  rank_speed_.assign(request.cluster.num_ranks(),
                     int64_t{1} << kSpeedFractionBits);
  for (size_t rank = 0; rank < request.cluster.rank_speed.size(); ++rank) {
    rank_speed_[rank] = ToFixedSpeed(request.cluster.rank_speed[rank]);
  }
}

int128 CostModel::Recomputed(int kind, int128 work) const {
  const int64_t redone = recompute_layers_[kind];
  if (redone == 0) return work;
  const int64_t layers = layers_[kind];
  return work * (3 * layers + redone) / (3 * layers);
}

int64_t CostModel::WorkNs(int degree, const BatchSize& size) const {
  int128 work = int128{head_} * size.tokens;
  for (int kind = 0; kind < num_kinds_; ++kind) {
    const KindCosts& costs = kinds_[kind];
    const int64_t linear = costs.linear + (degree == 1 ? costs.attention : 0);
    work += Recomputed(kind, costs.quadratic * size.pairs[kind] +
                                 int128{linear} * size.tokens);
  }
  return DivideWork(work, int64_t{degree} << kCostFractionBits);
}

int64_t CostModel::WholeNs(int64_t tokens) const {
  int128 work = 0;
  for (int kind = 0; kind < num_kinds_; ++kind) {
    work += Recomputed(kind, int128{kinds_[kind].sharded_attention} * tokens);
  }
  return DivideWork(work, int64_t{1} << kCostFractionBits);
}

int64_t CostModel::Find(const Coefficients& coefficients, int degree) {
  if (coefficients.empty()) return 0;
  for (const Coefficient& entry : coefficients) {
    if (entry.degree >= degree) return entry.per_token;
  }
  return coefficients.back().per_token;
}

int64_t CostModel::TrafficNs(int64_t per_token, int64_t tokens,
                             int64_t divisor) const {
  if (per_token == 0) return 0;
  const int64_t layers = layers_.total();
  const int128 scaled =
      int128{per_token} * tokens * (2 * layers + recompute_layers_.total());
  return DivideWork(scaled, (2 * layers * divisor) << kCostFractionBits);
}

int64_t CostModel::CollectiveNs(const BlockClass& block_class,
                                int64_t tokens) const {
  const int degree = block_class.degree;
  const SequenceSplit split = SplitFor(model_, degree);
  int64_t ns = 0;
  if (split.ulysses_degree > 1 || split.mode == SpMode::kSwitch) {
    const int64_t beta =
        Find(Across(collective_, collective_across_, block_class), degree);
    ns += TrafficNs(beta, tokens, degree);
  }
  if (split.gather_degree > 1) {
    const int64_t gamma =
        Find(Across(gather_, gather_across_, block_class), degree);
    ns += TrafficNs(gamma, tokens, split.ulysses_degree);
  }
  return ns;
}

int64_t CostModel::FixedNs(const BlockClass& block_class) const {
  if (block_class.degree == 1) return micro_batch_fixed_ns_;
  const int64_t latency_ns = block_class.crosses_nodes
                                 ? collective_latency_across_ns_
                                 : collective_latency_ns_;
  return micro_batch_fixed_ns_ +
         (2 * layers_.total() + recompute_layers_.total()) *
             CallsPerLayer(SplitFor(model_, block_class.degree)) * latency_ns;
}

int64_t CostModel::SampleNs(const BlockClass& block_class,
                            const BatchSize& size) const {
  const int64_t work_ns = WorkNs(block_class.degree, size);
  if (block_class.degree == 1) return work_ns;
  return work_ns + WholeNs(size.tokens) +
         CollectiveNs(block_class, size.tokens);
}

int64_t CostModel::MicroBatchNs(const BlockClass& block_class,
                                const BatchSize& size) const {
  BatchSize padded = size;
  padded.tokens = PaddedTokens(size.tokens, block_class.degree);
  return FixedNs(block_class) + SampleNs(block_class, padded);
}

int64_t CostModel::BlockSpeed(const Block& block) const {
  const auto first = rank_speed_.begin() + block.first_rank;
  return *std::min_element(first, first + block.degree);
}

int64_t CostModel::TotalSpeed() const {
  int64_t total = 0;
  for (int64_t speed : rank_speed_) total += speed;
  return total;
}

int64_t CostModel::AtSpeed(int64_t nominal_ns, int64_t speed) {
  constexpr int64_t kNominal = int64_t{1} << kSpeedFractionBits;
  if (speed == kNominal) return nominal_ns;
  return static_cast<int64_t>((int128{nominal_ns} * kNominal + speed - 1) /
                              speed);
}

}  // namespace evenstep::planner
