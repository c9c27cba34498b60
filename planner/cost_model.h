#ifndef EVENSTEP_PLANNER_COST_MODEL_H_
#define EVENSTEP_PLANNER_COST_MODEL_H_

// Predicted time of a micro-batch, in whole nanoseconds. The coefficients are
// turned into fixed point once (24 fractional bits); everything after that is
// integer arithmetic, so plans do not depend on compiler flags. Built from a
// validated request; immutable, so safe to share between threads.
//
// The formula is 10-planning's "Time", in this order of rounding:
//   work = (A2 * sum s^2 + A1 * S) * (3L + n) / (3L), rounded down
//   t    = c0 + work / d, down + (8L + 4n) alpha + S beta(d) (2L + n) / (2L d),
//          down; then divided by the slowest speed of the block, rounded up
// S is the micro-batch's padded tokens, s are real lengths (padding attends to
// nothing), L layers, n of them recomputed.

#include <cstdint>
#include <vector>

#include "planner/degrees.h"
#include "planner/request.h"

namespace evenstep::planner {

using int128 = __int128;

inline constexpr int kCostFractionBits = 24;
inline constexpr int kSpeedFractionBits = 20;

class CostModel {
 public:
  CostModel(const PlanRequest& request, int recompute_layers);

  // The same costs with another number of layers recomputed.
  CostModel WithRecompute(int recompute_layers) const {
    CostModel costs = *this;
    costs.recompute_layers_ = recompute_layers;
    return costs;
  }
  int recompute_layers() const { return static_cast<int>(recompute_layers_); }

  // What a micro-batch pays however little it holds, at nominal speed.
  int64_t FixedNs(int degree) const;
  // What one sample adds to a micro-batch, rounded down, at nominal speed.
  int64_t SampleNs(int degree, int64_t length) const;
  // Whole micro-batch at nominal speed. At least FixedNs plus its SampleNs.
  int64_t MicroBatchNs(int degree, int64_t padded_tokens,
                       int128 sum_squared_lengths) const;

  // Slowest rank of a block, in 1 / 2^kSpeedFractionBits.
  int64_t BlockSpeed(const Block& block) const;
  // Sum over all ranks, same unit.
  int64_t TotalSpeed() const;
  static int64_t AtSpeed(int64_t nominal_ns, int64_t speed);

 private:
  // Time at degree 1 with 24 fractional bits, recompute included.
  int128 Work(int64_t tokens, int128 squares) const;
  int64_t CollectiveNs(int degree, int64_t tokens) const;
  int64_t CollectiveCoefficient(int degree) const;

  int64_t linear_ = 0;     // fixed point
  int64_t quadratic_ = 0;  // fixed point
  int64_t num_layers_ = 1;
  int64_t recompute_layers_ = 0;
  int64_t micro_batch_fixed_ns_ = 0;
  int64_t collective_latency_ns_ = 0;
  struct Coefficient {
    int degree;
    int64_t per_token;  // fixed point
  };
  std::vector<Coefficient> collective_;
  std::vector<int64_t> rank_speed_;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COST_MODEL_H_
