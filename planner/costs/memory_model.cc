#include "planner/costs/memory_model.h"

#include <algorithm>

#include "planner/costs/degrees.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

LayerMemory MemoryOfKind(const PlanRequest& request, int kind) {
  const MemoryModel& memory = request.memory;
  if (!request.model.is_video()) {
    return {memory.layer_bytes_per_token, memory.kept_bytes_per_token};
  }
  return kind == 0 ? memory.spatial : memory.temporal;
}

}  // namespace

std::vector<LayerCounts> RecomputeModes(const PlanRequest& request) {
  std::vector<LayerCounts> modes = request.options.recompute_choices;
  modes.push_back(request.options.recompute_layers);
  std::sort(modes.begin(), modes.end(),
            [](const LayerCounts& a, const LayerCounts& b) {
              if (a.total() != b.total()) return a.total() < b.total();
              return a < b;
            });
  modes.erase(std::unique(modes.begin(), modes.end()), modes.end());
  return modes;
}

int64_t BytesPerToken(const PlanRequest& request, const LayerCounts& recompute,
                      int degree) {
  const LayerCounts layers = request.model.layers();
  int64_t bytes = request.memory.head_bytes_per_token;
  int64_t recomputed_layer_bytes = 0;  // alive while its backward runs
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    const LayerMemory memory = MemoryOfKind(request, kind);
    bytes += (layers[kind] - recompute[kind]) * memory.layer_bytes_per_token +
             recompute[kind] * memory.kept_bytes_per_token;
    if (recompute[kind] == 0) continue;
    recomputed_layer_bytes =
        std::max(recomputed_layer_bytes, memory.layer_bytes_per_token);
  }
  const int gather_degree = SplitFor(request.model, degree).gather_degree;
  if (gather_degree > 1) {
    bytes += gather_degree * request.memory.gathered_bytes_per_token;
  }
  return std::max<int64_t>(1, bytes + recomputed_layer_bytes);
}

int64_t TokensPerRank(const PlanRequest& request, const LayerCounts& recompute,
                      int degree) {
  if (request.memory.tokens_per_rank > 0) {
    return request.memory.tokens_per_rank;
  }
  return std::min(kMaxTokensPerRank,
                  request.memory.activation_bytes /
                      BytesPerToken(request, recompute, degree));
}

int64_t MostTokensPerRank(const PlanRequest& request) {
  int64_t most = 0;
  for (const LayerCounts& mode : RecomputeModes(request)) {
    most = std::max(most, TokensPerRank(request, mode));
  }
  return most;
}

int64_t StateBytesPerParameter(StateLayout layout, int num_ranks,
                               int replicas) {
  if (layout == StateLayout::kReplicatedFloat32) return 16;
  const bool float32 = layout == StateLayout::kZero1Float32;
  const int64_t whole = float32 ? 8 : 6;
  const int64_t sharded = (float32 ? 20 : 24) * (int64_t{1} + replicas);
  return whole + (sharded + num_ranks - 1) / num_ranks;
}

}  // namespace evenstep::planner
