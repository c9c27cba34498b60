#ifndef EVENSTEP_PLANNER_SIMULATOR_H_
#define EVENSTEP_PLANNER_SIMULATOR_H_

// Runs a plan on modelled hardware that is not what the planner believed: noise
// in every layer, slow ranks, a slow network, wrong costs. Without GPUs, it
// compares policies and draws the timelines of `evenstep plan`. Pure and
// thread-safe; the same seed gives the same step.
//
// Events are the micro-batches: one starts when the last rank of its group is
// free (under per_round: when the round before has ended everywhere). Ranks run
// their micro-batches in the plan's order and nothing else decides, so the
// events are worked off in that order.
//
// A micro-batch runs its layers one after the other. The ranks of a group
// compute a layer, each in a time of its own, and meet in the layer's
// collectives: so a layer takes as long as its slowest rank, and noise acts as
// a maximum over the group. Noise is 1 + sigma |z|, z standard normal: it never
// makes anything faster, and without it the step takes exactly as long as
// predicted.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

// Collectives of groups inside a node, or across nodes.
struct NetworkLevel {
  double slowdown = 1;  // of the planned time; at least 1
  double noise = 0;     // sigma, drawn per layer of a micro-batch
};

struct Hardware {
  uint64_t seed = 1;
  double layer_noise = 0;  // sigma, drawn per layer and rank
  double rank_noise = 0;   // sigma, drawn per rank for the whole step
  // Compute time of a rank over what the planner believes; at least 1. Empty:
  // no stragglers.
  std::vector<double> rank_slowdown;
  // What things really cost, where that is not request.time. Of the same kind
  // of model.
  std::optional<TimeModel> true_time;
  NetworkLevel inside_nodes;
  NetworkLevel across_nodes;
};

// One rank in one micro-batch.
struct SimulatedSpan {
  int rank = 0;
  int micro_batch = 0;   // index into the plan
  int64_t ready_ns = 0;  // the rank could have begun
  int64_t start_ns = 0;  // the group began
  int64_t end_ns = 0;
  // For others: until the start, and inside the collectives of the layers.
  int64_t waiting_ns = 0;
};

struct SimulatedRank {
  int64_t busy_ns = 0;  // with the step's fixed cost
  // In micro-batches, and for the last rank before the gradient reduction.
  int64_t waiting_ns = 0;
};

struct SimulatedStep {
  // Until the last rank has ended, plus the step's fixed cost. Of every rank,
  // busy and waiting add up to it.
  int64_t step_ns = 0;
  std::vector<SimulatedRank> ranks;
  std::vector<SimulatedSpan> timeline;  // in the plan's order, then by rank
  double idle_share = 0;                // waiting of all ranks / their time
};

// Costs that are wrong: every number of `time`, each on its own, times 1 + u, u
// uniform in +-half_width; of a linear cost, the part that is not attention, so
// that legal costs stay legal. INVALID_ARGUMENT unless that is in [0, 1).
absl::StatusOr<TimeModel> MisjudgedCosts(const TimeModel& time,
                                         double half_width, uint64_t seed);

// INVALID_ARGUMENT with the number when hardware or plan cannot be run. The
// request must be valid.
absl::StatusOr<SimulatedStep> Simulate(const PlanRequest& request,
                                       const Plan& plan,
                                       const Hardware& hardware);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_SIMULATOR_H_
