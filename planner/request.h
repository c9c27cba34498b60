#ifndef EVENSTEP_PLANNER_REQUEST_H_
#define EVENSTEP_PLANNER_REQUEST_H_

// What a planner is asked: the samples of one step, the ranks they run on, the
// model's shape, and what things cost. Plain data without invariants of its
// own; ValidateRequest (planner/validate.h) says what is legal. Used by the
// coordinator, by `evenstep plan`, and by tests.
//
// All predicted times are whole nanoseconds, so that the same request gives the
// same plan under every compiler flag.

#include <cstdint>
#include <string>
#include <vector>

namespace evenstep::planner {

struct Sample {
  int64_t id = 0;              // position in the job's sample sequence; unique
  int64_t length = 0;          // tokens, at least 1
  int64_t trained_tokens = 0;  // tokens with a loss, 0..length
};

// Facts of the whole run that are the same for every step.
struct RunFacts {
  int64_t max_length = 0;  // longest length that any step may contain
  // Upper bounds of the length buckets, ascending, for `bucket` and `dcp-*`;
  // above the last one, and if empty: powers of two.
  std::vector<int64_t> bucket_bounds;
};

struct Cluster {
  std::vector<int> ranks_per_node;  // ranks of a node are consecutive
  // Relative speed per rank, 1.0 = nominal. Empty: all nominal.
  std::vector<double> rank_speed;

  int num_ranks() const {
    int total = 0;
    for (int ranks : ranks_per_node) total += ranks;
    return total;
  }
};

struct ModelShape {
  int num_layers = 1;
  int width = 0;
  int heads = 1;
  int kv_heads = 1;
  // Degrees allowed whatever the heads say (published set-ups); empty: by
  // heads.
  std::vector<int> forced_degrees;
};

// Seconds-of-work model of one micro-batch with padded lengths s_k (S in all)
// on degree d, r = recomputed layers / layers (design: 10-planning, "Time"):
//   t = c0 + (a2 sum s_k^2 + a1 S)(1 + r/3) / d + comm(S, d, r)
//   comm = 0 for d = 1, else (8 L + 4 n) alpha + (1 + r/2) S beta(d) / d
// where n = r L, and beta(d) is the time per token and whole model of the
// all-to-alls of one forward and backward at degree d.
struct TimeModel {
  int64_t micro_batch_fixed_ns = 0;    // c0
  double linear_ns_per_token = 0;      // a1
  double quadratic_ns_per_token2 = 0;  // a2
  int64_t collective_latency_ns = 0;   // alpha, per collective
  // beta by degree; a degree that is absent takes the next larger entry, or the
  // last one. Empty: no cost.
  struct CollectiveCost {
    int degree = 0;
    double ns_per_token = 0;
  };
  std::vector<CollectiveCost> collective;
  int64_t step_fixed_ns = 0;  // gradient reduction and optimizer, once a step
};

// What bounds the padded tokens / degree of every micro-batch. tokens_per_rank,
// if not 0, is that bound, whatever is recomputed. Else it follows from bytes,
// with n of L layers recomputed (design: 10-planning, "Memory"):
//   activation_bytes / ((L - n) layer + n kept + (n > 0 ? layer : 0) + head)
struct MemoryModel {
  int64_t tokens_per_rank = 0;
  // Of a rank, free for activations: after states, buffers and safety margin.
  int64_t activation_bytes = 0;
  int64_t layer_bytes_per_token = 0;  // of a layer that is not recomputed
  int64_t kept_bytes_per_token = 0;   // input of a recomputed layer
  int64_t head_bytes_per_token = 0;   // logits, and what else no layer holds
};

enum class Policy {
  kStatic,
  kBalanced,
  kPacked,
  kEven,
  kBucket,
  kBucketTuned,
  kDcpInter,
  kDcpIntra
};
// per_step: a micro-batch starts when all its ranks are free.
// per_round: micro-batches stand in rounds, at most one per rank and round;
// every rank waits for the slowest of a round (engines that gather weights).
enum class SyncMode { kPerStep, kPerRound };
// Aligned: degrees are powers of two or the world, blocks nest. Contiguous: any
// degree that the model allows, anywhere.
enum class BlockShape { kAligned, kContiguous };

struct Options {
  Policy policy = Policy::kEven;
  SyncMode sync = SyncMode::kPerStep;
  BlockShape blocks = BlockShape::kAligned;
  int recompute_layers = 0;  // for every micro-batch
  // If not empty, `even` chooses one of these numbers of layers, or
  // recompute_layers, for every micro-batch; the other policies keep to
  // recompute_layers.
  std::vector<int> recompute_choices;
  // Groups of two ranks and more that a rank may belong to in one step: each
  // costs a communicator (about 0.5 GB of an A100). 0: no limit. Aligned powers
  // of two need at most log2 of the ranks.
  int max_groups_per_rank = 0;
  // Counted work, never the clock: trials of the local search.
  int64_t work_budget = 60000;
};

struct PlanRequest {
  std::vector<Sample> samples;
  RunFacts run;
  Cluster cluster;
  ModelShape model;
  TimeModel time;
  MemoryModel memory;
  Options options;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_REQUEST_H_
