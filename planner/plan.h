#ifndef EVENSTEP_PLANNER_PLAN_H_
#define EVENSTEP_PLANNER_PLAN_H_

// How one step runs: an ordered list of micro-batches and what is predicted of
// them. The order is global; a rank runs the micro-batches whose block contains
// it, in that order, so collectives cannot deadlock (law 3). Plain data.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model.h"

namespace evenstep::planner {

struct MicroBatch {
  int first_rank = 0;  // block [first_rank, first_rank + degree)
  int degree = 1;
  // Indices into PlanRequest::samples, not sample ids, in the order they are
  // packed.
  std::vector<int> samples;
  // Under per_round: every rank waits for the slowest micro-batch of a round
  // before the next. Never descends in the global order. 0 under per_step.
  int round = 0;
  // The first n layers of each kind run checkpointed.
  LayerCounts recompute_layers;
  // How the group shares its sequences. kBoth: ulysses within every
  // ulysses_degree ranks; else that is 1, or the degree (kUlysses).
  SpMode sp_mode = SpMode::kUlysses;
  int ulysses_degree = 1;
  int64_t padded_tokens = 0;  // of all ranks together (sample_size.h)
  int64_t predicted_ns = 0;
  // Activations of a rank; 0 where nothing is said of what a token takes.
  int64_t predicted_bytes = 0;
};

enum class BoundKind { kArea, kLongest, kMemory, kDestructive };

struct Plan {
  std::vector<MicroBatch> micro_batches;
  int64_t trained_tokens = 0;  // of all samples: the divisor of the gradient
  int64_t predicted_step_ns = 0;
  std::vector<int64_t> rank_busy_ns;  // per rank, with the step's fixed cost
  double predicted_imbalance = 0;     // 1 - mean busy / step
  double padding_ratio = 0;           // padding tokens / padded tokens
  int64_t lower_bound_ns = 0;
  BoundKind active_bound = BoundKind::kArea;
  // FNV-1a, 64 bits, over the canonical bytes of micro_batches (see digest.h);
  // equal on all ranks or the step does not start.
  uint64_t digest = 0;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PLAN_H_
