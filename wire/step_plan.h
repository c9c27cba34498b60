#ifndef EVENSTEP_WIRE_STEP_PLAN_H_
#define EVENSTEP_WIRE_STEP_PLAN_H_

// A step's plan as ranks see it: samples by id and length rather than by index
// into a request. Made by the coordinator, compared by digest at the gate, run
// by trainers. Plain data.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/clip.h"
#include "evenstep/v1/plan.pb.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::wire {

struct PlannedMicroBatch {
  int first_rank = 0;
  int degree = 1;
  std::vector<int64_t> sample_ids;
  std::vector<int64_t> lengths;         // tokens, parallel to sample_ids
  std::vector<data::ClipShape> shapes;  // of video, parallel; empty for text
  int recompute_layers = 0;
  int recompute_temporal_layers = 0;  // of video
  planner::SpMode sp_mode = planner::SpMode::kUlysses;
  // Ranks of one all-to-all: 1 under kKvGather; 0 stands for the degree.
  int ulysses_degree = 0;
  int round = 0;
  int64_t predicted_ns = 0;

  bool Contains(int rank) const {
    return rank >= first_rank && rank < first_rank + degree;
  }
};

struct StepPlan {
  int64_t generation = 0;
  int64_t step = 0;
  int world = 1;
  std::vector<PlannedMicroBatch> micro_batches;
  int64_t trained_tokens = 0;
  uint64_t digest = 0;
  int64_t predicted_step_ns = 0;
  int64_t lower_bound_ns = 0;
  double predicted_imbalance = 0;
  double padding_ratio = 0;
  std::string policy;
};

// FNV-1a, 64 bits, over little-endian int64 values: world, step,
// trained_tokens, number of micro-batches, then for each its first rank,
// degree, recomputed layers, number of samples, all ids, all lengths; and if it
// is not plain (ulysses, round 0, no temporal layers recomputed) -1, mode of
// sequence parallelism (in the order of SpMode), ulysses degree, recomputed
// temporal layers, round. Neither the generation nor predictions: they change
// nothing that a rank computes; nor shapes: the data says the same.
uint64_t StepPlanDigest(const StepPlan& plan);

// Fills everything in, the digest included.
StepPlan MakeStepPlan(const planner::PlanRequest& request,
                      const planner::Plan& plan, int64_t generation,
                      int64_t step, absl::string_view policy);

v1::StepPlan ToProto(const StepPlan& plan);
// INVALID_ARGUMENT: lists of different lengths, blocks outside the world,
// lengths below 1, shapes that are not of the lengths, or a digest that does
// not match.
absl::StatusOr<StepPlan> FromProto(const v1::StepPlan& proto);

// Shapes as they are; INVALID_ARGUMENT when the product of the sides, each at
// least 1, is not `length`.
v1::ClipShape ToProto(const data::ClipShape& shape);
absl::StatusOr<data::ClipShape> FromProto(const v1::ClipShape& proto,
                                          int64_t length);

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_STEP_PLAN_H_
