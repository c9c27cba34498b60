#ifndef EVENSTEP_PLANNER_COSTS_COST_MODEL_H_
#define EVENSTEP_PLANNER_COSTS_COST_MODEL_H_

// Predicted time of a micro-batch, in whole nanoseconds. The coefficients are
// turned into fixed point once (24 fractional bits); everything after that is
// integer arithmetic, so plans do not depend on compiler flags. Built from a
// validated request; immutable, so safe to share between threads.
//
// The formula is TimeModel's (model.h), in this order of rounding, with L_k
// layers of kind k, n_k of them recomputed, L and n of all kinds together:
//   work   = sum over kinds of (A2_k pairs_k + (A1_k - B_k) S) (3 L_k + n_k) /
//            (3 L_k), each rounded down, + H S
//   whole  = sum over kinds of B'_k S (3 L_k + n_k) / (3 L_k), each down
//   t      = c0 + work / d, down; at degree 1 with A1_k in place of A1_k - B_k,
//            and no more; else
//            + whole, down + (2 L + n) calls alpha
//            + S beta(d) (2 L + n) / (2 L d), down
//            + S gamma(d) (2 L + n) / (2 L u), down
//   then divided by the slowest speed of the block, rounded up
// S is the micro-batch's padded tokens; pairs are real ones (sample_size.h).

#include <array>
#include <cstdint>
#include <vector>

#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"
#include "planner/request.h"

namespace evenstep::planner {

inline constexpr int kCostFractionBits = 24;
inline constexpr int kSpeedFractionBits = 20;

// Whether the ranks exchange by all-to-alls, of heads or of tokens.
inline bool ExchangesAll(const SequenceSplit& split) {
  return split.ulysses_degree > 1 || split.mode == SpMode::kSwitch;
}

// Collectives of a layer in one pass.
int64_t CallsPerLayer(const SequenceSplit& split);

// A rank's relative speed in 1 / 2^kSpeedFractionBits.
int64_t ToFixedSpeed(double speed);

class CostModel {
 public:
  CostModel(const PlanRequest& request, const LayerCounts& recompute_layers);

  // The same costs with other numbers of layers recomputed.
  CostModel WithRecompute(const LayerCounts& recompute_layers) const {
    CostModel costs = *this;
    costs.recompute_layers_ = recompute_layers;
    return costs;
  }
  const LayerCounts& recompute_layers() const { return recompute_layers_; }

  BatchSize SizeAt(int degree, const Sample& sample) const {
    return SizeOf(model_, SplitFor(model_, degree), sample);
  }

  // What a micro-batch pays however little it holds, at nominal speed.
  int64_t FixedNs(const BlockClass& block_class) const;
  // What a sample of this size (at that degree) adds to a micro-batch, rounded
  // down, at nominal speed.
  int64_t SampleNs(const BlockClass& block_class, const BatchSize& size) const;
  // Whole micro-batch at nominal speed, `size` not yet padded to a multiple of
  // the degree. At least FixedNs plus its SampleNs.
  int64_t MicroBatchNs(const BlockClass& block_class,
                       const BatchSize& size) const;

  BlockClass ClassOf(const Block& block) const { return nodes_.ClassOf(block); }
  // Slowest rank of a block, in 1 / 2^kSpeedFractionBits.
  int64_t BlockSpeed(const Block& block) const;
  // Sum over all ranks, same unit.
  int64_t TotalSpeed() const;
  static int64_t AtSpeed(int64_t nominal_ns, int64_t speed);

 private:
  struct Coefficient {
    int degree;
    int64_t per_token;  // fixed point
  };
  using Coefficients = std::vector<Coefficient>;
  // Fixed point.
  struct KindCosts {
    int64_t linear = 0;     // the part that is not attention's
    int64_t attention = 0;  // linear part at degree 1
    int64_t sharded_attention = 0;
    int64_t quadratic = 0;
  };

  static KindCosts ToKindCosts(const LayerTime& time);
  static Coefficients ToCoefficients(
      const std::vector<TimeModel::CollectiveCost>& costs);
  static int64_t Find(const Coefficients& coefficients, int degree);
  const Coefficients& Across(const Coefficients& inside,
                             const Coefficients& across,
                             const BlockClass& block_class) const {
    return block_class.crosses_nodes && !across.empty() ? across : inside;
  }

  // Of what kind `kind` does, with its recompute.
  int128 Recomputed(int kind, int128 work) const;
  int64_t WorkNs(int degree, const BatchSize& size) const;
  int64_t WholeNs(int64_t tokens) const;
  int64_t CollectiveNs(const BlockClass& block_class, int64_t tokens) const;
  int64_t TrafficNs(int64_t per_token, int64_t tokens, int64_t divisor) const;

  ModelShape model_;
  int num_kinds_ = 1;
  LayerCounts layers_;
  LayerCounts recompute_layers_;
  std::array<KindCosts, kMaxLayerKinds> kinds_;
  int64_t head_ = 0;  // fixed point
  int64_t micro_batch_fixed_ns_ = 0;
  int64_t collective_latency_ns_ = 0;
  int64_t collective_latency_across_ns_ = 0;
  Coefficients collective_;
  Coefficients collective_across_;
  Coefficients gather_;
  Coefficients gather_across_;
  NodeMap nodes_;
  std::vector<int64_t> rank_speed_;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_MODEL_H_
