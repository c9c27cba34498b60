#ifndef EVENSTEP_CLIENT_PLAN_PLAN_SETUP_H_
#define EVENSTEP_CLIENT_PLAN_PLAN_SETUP_H_

// What a person says about cluster, model and options, and the planner's
// request that follows. Plain data and pure functions, but for reading a cost
// file. Used by `evenstep plan` and by studies.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/plan/length_source.h"
#include "planner/models/published_costs.h"
#include "planner/request.h"

namespace evenstep::plan {

inline constexpr char kDefaultCosts[] = "h200-5b-1d";
inline constexpr char kDefaultVideoCosts[] = "h200-5b-2d";  // of clips
inline constexpr int kDefaultGpusPerNode = 8;

// fixed: the same number of layers everywhere. plan: none, all, and steps in
// between; `even` and the bucket policies choose by micro-batch, the others
// take the one number that suits them best.
enum class RecomputeChoice { kFixed, kPlan };

struct PlanSetup {
  int num_gpus = 0;  // 0: what gpus_per_node adds up to, else one node
  // One number for all nodes (the last may hold fewer), or one per node.
  // Empty: kDefaultGpusPerNode.
  std::vector<int> gpus_per_node;
  std::string costs;  // a built-in model, or a file; empty: kDefaultCosts
  // Tokens that a GPU holds with nothing recomputed. 0: what the costs say.
  int64_t tokens_per_gpu = 0;
  double micro_batch_fixed_ms = -1;  // below 0: what the costs say
  planner::SyncMode sync = planner::SyncMode::kPerStep;
  planner::BlockShape blocks = planner::BlockShape::kAligned;
  RecomputeChoice recompute = RecomputeChoice::kPlan;
  std::optional<int> recompute_layers;  // kFixed only; 0 if it is not given
  std::vector<int> degrees;  // whatever the heads allow; empty: by heads
  int64_t max_length = 0;    // of the run; 0: the step's longest
  int max_groups_per_rank = 0;
  int64_t work_budget = 0;           // 0: the planner's own
  std::map<int, double> rank_speed;  // 1 is nominal; ranks left out are
};

// A built-in model by name, or a cost file; kDefaultCosts if empty.
// INVALID_ARGUMENT names the built-in ones.
absl::StatusOr<planner::PublishedCosts> LoadCosts(const std::string& costs);
// The costs of a setup for these lengths: clips have a default of their own.
// INVALID_ARGUMENT: clips for a text model, which would take them for text, or
// lengths without frames for a video model.
absl::StatusOr<planner::PublishedCosts> LoadCostsFor(
    const PlanSetup& setup, const StepLengths& lengths);

// Ranks per node. INVALID_ARGUMENT with the numbers that do not fit together.
absl::StatusOr<std::vector<int>> NodesOf(const PlanSetup& setup);

// What a user of this model and cluster should know before reading on: that no
// degree above 1 is legal. Empty if there is nothing.
std::string NoteOn(const planner::PlanRequest& request);

// The request for these samples; its policy is left at the default.
// INVALID_ARGUMENT names the flag.
absl::StatusOr<planner::PlanRequest> BuildRequest(
    const PlanSetup& setup, const planner::PublishedCosts& costs,
    const std::vector<data::LengthDraw>& samples);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_PLAN_SETUP_H_
