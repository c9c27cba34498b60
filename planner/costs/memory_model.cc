#include "planner/costs/memory_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/costs/degrees.h"
#include "planner/limits.h"

namespace evenstep::planner {
namespace {

using KindMemory = std::array<LayerMemory, kMaxLayerKinds>;

// By kind, shared by heads among so many ranks.
KindMemory MemoryOfKinds(const PlanRequest& request, int ulysses_degree) {
  const MemoryModel& memory = request.memory;
  if (request.model.is_video()) return {memory.spatial, memory.temporal};
  const int64_t copies = CopiedKvHeads(request.model, ulysses_degree);
  return {LayerMemory{
      memory.layer_bytes_per_token + copies * memory.kv_head_bytes_per_token,
      memory.kept_bytes_per_token, memory.backward_bytes_per_token}};
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
int64_t HeldAt(const PlanRequest& request, const KindMemory& memory,
               const LayerCounts& recompute, int kind, int count) {
  const LayerCounts layers = request.model.layers();
  int64_t held = BytesOfFirst(memory[kind], count, recompute[kind]);
  if (request.model.is_video()) {
    // In turn: as many spatial layers stand before a temporal one, and one
    // temporal layer less before a spatial one.
    const int other = 1 - kind;
    const int before = std::min(layers[other], count - other);
    held += BytesOfFirst(memory[other], before, recompute[other]);
  }
  return held;
}

// Keys and values of a layer after a gather, with copies of heads: the group
// has a multiple of the model's own.
int64_t GatheredBytes(const PlanRequest& request, const SequenceSplit& split) {
  if (split.gather_degree == 1) return 0;
  const ModelShape& model = request.model;
  const int64_t heads =
      model.kv_heads + CopiedKvHeads(model, split.ulysses_degree);
  return split.gather_degree * (heads / model.kv_heads) *
         request.memory.gathered_bytes_per_token;
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
  for (const LayerMemory& memory : MemoryOfKinds(request, 1)) {
    if (memory.layer_bytes_per_token > 0) return true;
  }
  return request.memory.tokens_per_rank == 0;
}

int64_t BytesPerToken(const PlanRequest& request, const LayerCounts& recompute,
                      int degree) {
  const LayerCounts layers = request.model.layers();
  const SequenceSplit split = SplitFor(request.model, degree);
  const KindMemory memory = MemoryOfKinds(request, split.ulysses_degree);
  const int64_t gathered = GatheredBytes(request, split);
  int64_t most = request.memory.head_bytes_per_token;
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    most += BytesOfFirst(memory[kind], layers[kind], recompute[kind]);
  }
  for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
    const int64_t gradients =
        std::max(memory[kind].backward_bytes_per_token, gathered);
    const auto held_at = [&](int count) {
      return HeldAt(request, memory, recompute, kind, count);
    };
    if (recompute[kind] < layers[kind]) {
      most = std::max(most, held_at(layers[kind]) + gradients);
    }
    if (recompute[kind] > 0) {
      most = std::max(most, held_at(recompute[kind]) +
                                memory[kind].layer_bytes_per_token + gradients);
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

namespace {

absl::Status CheckDevice(const DeviceMemory& device) {
  const bool ok =
      device.device_bytes > 0 && device.device_bytes <= kMaxActivationBytes &&
      device.margin >= 0 && device.margin < 1 && device.parameters >= 0 &&
      device.parameters <= kMaxActivationBytes / 64 &&
      device.states_over_ranks >= 1 && device.states_over_ranks <= kMaxRanks &&
      device.shard_replicas >= 0 &&
      device.shard_replicas < device.states_over_ranks;
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "device_bytes ", device.device_bytes, ", margin ", device.margin,
      ", parameters ", device.parameters, ", states_over_ranks ",
      device.states_over_ranks, ", shard_replicas ", device.shard_replicas,
      " are out of range"));
}

}  // namespace

absl::Status DeriveMemory(const DeviceMemory& device, MemoryModel* memory) {
  const int num_ways = (memory->tokens_per_rank != 0 ? 1 : 0) +
                       (memory->activation_bytes != 0 ? 1 : 0) +
                       (device.device_bytes != 0 ? 1 : 0);
  if (num_ways != 1) {
    return absl::InvalidArgumentError(
        "exactly one of tokens_per_rank, activation_bytes and device_bytes "
        "must be given");
  }
  if (device.device_bytes == 0) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(CheckDevice(device));
  const int64_t states =
      device.parameters * StateBytesPerParameter(device.states,
                                                 device.states_over_ranks,
                                                 device.shard_replicas);
  memory->activation_bytes =
      std::llround((1 - device.margin) *
                   static_cast<double>(device.device_bytes)) -
      states;
  if (memory->activation_bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the states of ", device.parameters, " parameters take ", states,
      " bytes, all of device_bytes ", device.device_bytes, " less the margin"));
}

}  // namespace evenstep::planner
