#include "planner/costs/memory_model.h"

#include <algorithm>

#include "planner/costs/degrees.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

LayerMemory MemoryOfKind(const PlanRequest& request, int kind) {
  const MemoryModel& memory = request.memory;
  if (!request.model.is_video()) {
    return {memory.layer_bytes_per_token, memory.kept_bytes_per_token,
            memory.backward_bytes_per_token};
  }
  return kind == 0 ? memory.spatial : memory.temporal;
}

// What the first `count` layers of a kind hold, the first of which are
// recomputed.
int64_t BytesOfFirst(const LayerMemory& memory, int count, int recomputed) {
  const int kept = std::min(count, recomputed);
  return kept * memory.kept_bytes_per_token +
         (count - kept) * memory.layer_bytes_per_token;
}

// What is held when backward comes to layer `count` of a kind: by that layer
// and all before it.
int64_t HeldAt(const PlanRequest& request, const LayerCounts& recompute,
               int kind, int count) {
  const LayerCounts layers = request.model.layers();
  int64_t held =
      BytesOfFirst(MemoryOfKind(request, kind), count, recompute[kind]);
  if (request.model.is_video()) {
    // In turn: as many spatial layers stand before a temporal one, and one
    // temporal layer less before a spatial one.
    const int other = 1 - kind;
    const int before = std::min(layers[other], count - other);
    held +=
        BytesOfFirst(MemoryOfKind(request, other), before, recompute[other]);
  }
  return held;
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

bool KnowsBytes(const PlanRequest& request) {
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    if (MemoryOfKind(request, kind).layer_bytes_per_token > 0) return true;
  }
  return request.memory.tokens_per_rank == 0;
}

int64_t BytesPerToken(const PlanRequest& request, const LayerCounts& recompute,
                      int degree) {
  const LayerCounts layers = request.model.layers();
  const int gather_degree = SplitFor(request.model, degree).gather_degree;
  const int64_t gathered =
      gather_degree > 1
          ? gather_degree * request.memory.gathered_bytes_per_token
          : 0;
  int64_t most = request.memory.head_bytes_per_token;
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    most += BytesOfFirst(MemoryOfKind(request, kind), layers[kind],
                         recompute[kind]);
  }
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    const LayerMemory memory = MemoryOfKind(request, kind);
    const int64_t gradients =
        std::max(memory.backward_bytes_per_token, gathered);
    if (recompute[kind] < layers[kind]) {
      most = std::max(
          most, HeldAt(request, recompute, kind, layers[kind]) + gradients);
    }
    if (recompute[kind] > 0) {
      most = std::max(most, HeldAt(request, recompute, kind, recompute[kind]) +
                                memory.layer_bytes_per_token + gradients);
    }
  }
  return std::max<int64_t>(1, most);
}

int64_t PredictBytes(const PlanRequest& request, const LayerCounts& recompute,
                     int degree, int64_t padded_tokens) {
  if (!KnowsBytes(request)) return 0;
  const __int128 bytes = __int128{BytesPerToken(request, recompute, degree)} *
                         (padded_tokens / degree);
  return bytes > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bytes);
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
