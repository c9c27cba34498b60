#ifndef EVENSTEP_PLANNER_REQUEST_H_
#define EVENSTEP_PLANNER_REQUEST_H_

// What a planner is asked: the samples of one step, the ranks they run on, the
// model and what it costs (model.h). Plain data without invariants of its
// own; ValidateRequest (planner/validate.h) says what is legal. Used by the
// coordinator, by `evenstep plan`, and by tests.
//
// All predicted times are whole nanoseconds, so that the same request gives the
// same plan under every compiler flag.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model.h"

namespace evenstep::planner {

struct Sample {
  int64_t id = 0;              // position in the job's sample sequence; unique
  int64_t length = 0;          // tokens, at least 1
  int64_t trained_tokens = 0;  // tokens with a loss, 0..length
  // Of video, in patches; length is their product. frames = 0: text.
  int64_t frames = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t patches() const { return height * width; }  // of a frame

  friend bool operator==(const Sample&, const Sample&) = default;
};

// Facts of the whole run that are the same for every step.
struct RunFacts {
  // Longest length that any step may contain; a longer sample is refused.
  // Policies that keep one degree for a run size it by this. 0: not known, and
  // the longest sample of the step counts instead, so that the degree may
  // differ from step to step.
  int64_t max_length = 0;
  // Upper bounds of the length buckets, ascending, for `bucket` and `dcp-*`;
  // above the last one, and if empty: powers of two.
  std::vector<int64_t> bucket_bounds;

  friend bool operator==(const RunFacts&, const RunFacts&) = default;
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

  friend bool operator==(const Cluster&, const Cluster&) = default;
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
  LayerCounts recompute_layers;  // for every micro-batch
  // If not empty, `even` chooses one of these numbers of layers, or
  // recompute_layers, for every micro-batch; the other policies keep to
  // recompute_layers.
  std::vector<LayerCounts> recompute_choices;
  // If not empty: no legal degree above 1 but these is used.
  std::vector<int> degrees;
  // Of policies that keep one degree (static, balanced, packed, bucket*); 0:
  // the smallest that holds the longest sample.
  int static_degree = 0;
  // Groups of two ranks and more that a rank may belong to in one step: each
  // costs a communicator (about 0.5 GB of an A100). 0: no limit. Aligned powers
  // of two need at most log2 of the ranks.
  int max_groups_per_rank = 0;
  // Counted work, never the clock: trials of the local search.
  int64_t work_budget = 60000;

  friend bool operator==(const Options&, const Options&) = default;
};

struct PlanRequest {
  std::vector<Sample> samples;
  RunFacts run;
  Cluster cluster;
  ModelShape model;
  TimeModel time;
  MemoryModel memory;
  Options options;

  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_REQUEST_H_
