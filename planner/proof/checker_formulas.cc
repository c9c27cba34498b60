#include "planner/proof/checker_formulas.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/limits.h"

namespace evenstep::planner::checker {
namespace {

using Wide = __int128;

bool IsVideo(const ModelShape& model) {
  return model.spatial_layers + model.temporal_layers > 0;
}

bool MayUse(const ModelShape& model, SpMode mode) {
  if (model.sp_modes.empty()) {
    return mode == (IsVideo(model) ? SpMode::kSwitch : SpMode::kUlysses);
  }
  for (SpMode allowed : model.sp_modes) {
    if (allowed == mode) return true;
  }
  return false;
}

bool HeadsDivide(const ModelShape& model, int ranks) {
  if (model.heads % ranks != 0) return false;
  if (model.expand_kv_heads) return true;
  return model.kv_heads % ranks == 0 || ranks % model.kv_heads == 0;
}

// With copies: every rank has one, or every query head has.
int KvHeadsOfGroup(const ModelShape& model, int ranks) {
  if (model.kv_heads % ranks == 0) return model.kv_heads;
  return ranks % model.kv_heads == 0 ? ranks : model.heads;
}

bool IsForced(const ModelShape& model, int degree) {
  for (int forced : model.forced_degrees) {
    if (forced == degree) return true;
  }
  return false;
}

Wide RoundUp(Wide value, Wide multiple) {
  const Wide rest = value % multiple;
  return rest == 0 ? value : value + multiple - rest;
}

Wide Fixed24(double coefficient) {
  return std::llround(coefficient * 16777216.0);
}

// The first entry of at least `degree`, else the last one.
Wide Entry24(const std::vector<TimeModel::CollectiveCost>& costs, int degree) {
  double chosen = 0;
  for (const auto& entry : costs) {
    chosen = entry.ns_per_token;
    if (entry.degree >= degree) break;
  }
  return Fixed24(chosen);
}

bool LeavesItsNode(const PlanRequest& request, const MicroBatch& batch) {
  int node_begin = 0;
  for (int ranks : request.cluster.ranks_per_node) {
    const int node_end = node_begin + ranks;
    if (batch.first_rank >= node_begin && batch.first_rank < node_end) {
      return batch.first_rank + batch.degree > node_end;
    }
    node_begin = node_end;
  }
  return false;
}

// Of one kind of layer, all its numbers.
struct Kind {
  int layers = 0;
  int redone = 0;
  LayerTime time;
  LayerMemory memory;
  Wide pairs = 0;
};

// Pairs of tokens that attend to each other, of the micro-batch's samples; what
// a rank with one frame or patch more than others does, all wait for.
void CountPairs(const PlanRequest& request, const MicroBatch& batch,
                std::vector<Kind>& kinds) {
  for (int index : batch.samples) {
    const Sample& s = request.samples[index];
    if (!IsVideo(request.model)) {
      kinds[0].pairs += Wide{s.length} * s.length;
      continue;
    }
    const Wide patches = Wide{s.height} * s.width;
    const bool switches = batch.degree > 1 && batch.sp_mode == SpMode::kSwitch;
    const Wide multiple = switches ? batch.degree : 1;
    kinds[0].pairs += RoundUp(s.frames, multiple) * patches * patches;
    kinds[1].pairs += RoundUp(patches, multiple) * s.frames * s.frames;
  }
}

std::vector<Kind> KindsOf(const PlanRequest& request, const MicroBatch& batch) {
  const ModelShape& model = request.model;
  const TimeModel& time = request.time;
  const MemoryModel& memory = request.memory;
  std::vector<Kind> kinds;
  if (IsVideo(model)) {
    kinds.push_back({model.spatial_layers, batch.recompute_layers[0],
                     time.spatial, memory.spatial});
    kinds.push_back({model.temporal_layers, batch.recompute_layers[1],
                     time.temporal, memory.temporal});
  } else {
    kinds.push_back(
        {model.num_layers,
         batch.recompute_layers[0],
         {time.linear_ns_per_token, time.quadratic_ns_per_token2,
          time.attention_ns_per_token, time.sharded_attention_ns_per_token},
         {memory.layer_bytes_per_token, memory.kept_bytes_per_token,
          memory.backward_bytes_per_token}});
  }
  CountPairs(request, batch, kinds);
  return kinds;
}

// Backward is two forwards, so one forward more is a third.
Wide WithRecompute(const Kind& kind, Wide work) {
  if (kind.redone == 0) return work;
  return work * (3 * kind.layers + kind.redone) / (3 * kind.layers);
}

Wide ComputeNs(const PlanRequest& request, const MicroBatch& batch,
               const std::vector<Kind>& kinds) {
  const Wide tokens = batch.padded_tokens;
  Wide shared = Fixed24(request.time.head_ns_per_token) * tokens;
  Wide whole = 0;
  for (const Kind& kind : kinds) {
    Wide linear = Fixed24(kind.time.linear_ns_per_token);
    if (batch.degree > 1) {
      linear -= Fixed24(kind.time.attention_ns_per_token);
      whole += WithRecompute(
          kind, Fixed24(kind.time.sharded_attention_ns_per_token) * tokens);
    }
    shared += WithRecompute(
        kind, Fixed24(kind.time.quadratic_ns_per_token2) * kind.pairs +
                  linear * tokens);
  }
  return shared / (Wide{batch.degree} * 16777216) + whole / 16777216;
}

Wide CollectiveNs(const PlanRequest& request, const MicroBatch& batch,
                  const std::vector<Kind>& kinds) {
  const TimeModel& time = request.time;
  const Sharing sharing = *SharingAt(request.model, batch.degree);
  const bool across = LeavesItsNode(request, batch);
  Wide layers = 0, redone = 0;
  for (const Kind& kind : kinds) {
    layers += kind.layers;
    redone += kind.redone;
  }
  const bool switches = sharing.mode == SpMode::kSwitch;
  const bool all_to_all = sharing.ulysses > 1;
  const bool gathers = sharing.gather > 1;
  const Wide calls = (switches ? 1 : (all_to_all ? 4 : 0) + (gathers ? 2 : 0)) *
                     (2 * layers + redone);
  const Wide latency_ns = across && time.collective_latency_across_ns != 0
                              ? time.collective_latency_across_ns
                              : time.collective_latency_ns;
  const auto& moved = across && !time.collective_across.empty()
                          ? time.collective_across
                          : time.collective;
  const auto& gathered =
      across && !time.gather_across.empty() ? time.gather_across : time.gather;
  const Wide passes = Wide{batch.padded_tokens} * (2 * layers + redone);
  Wide total = calls * latency_ns;
  if (switches || all_to_all) {
    total += Entry24(moved, batch.degree) * passes /
             (2 * layers * batch.degree * 16777216);
  }
  if (gathers) {
    total += Entry24(gathered, batch.degree) * passes /
             (2 * layers * sharing.ulysses * 16777216);
  }
  return total;
}

// One layer of the forward pass.
struct Standing {
  LayerMemory memory;
  bool again = false;  // in backward
};

// In the order of the forward pass: kinds take turns as long as they have
// layers, and the first of each are recomputed.
std::vector<Standing> LayersInOrder(const std::vector<Kind>& kinds) {
  std::vector<Standing> layers;
  bool more = true;
  for (int turn = 0; more; ++turn) {
    more = false;
    for (const Kind& kind : kinds) {
      if (turn >= kind.layers) continue;
      layers.push_back({kind.memory, turn < kind.redone});
      more = true;
    }
  }
  return layers;
}

// One forward and backward: the most that is held at once.
Wide PeakOfPass(const std::vector<Standing>& layers, Wide head, Wide gathered) {
  Wide held = 0;
  for (const Standing& layer : layers) {
    held += layer.again ? layer.memory.kept_bytes_per_token
                        : layer.memory.layer_bytes_per_token;
  }
  Wide most = held + head;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const Wide whole = layer->memory.layer_bytes_per_token;
    const Wide gradients =
        std::max(Wide{layer->memory.backward_bytes_per_token}, gathered);
    most = std::max(most, held + (layer->again ? whole : 0) + gradients);
    held -= layer->again ? layer->memory.kept_bytes_per_token : whole;
  }
  return most;
}

}  // namespace

std::optional<Sharing> SharingAt(const ModelShape& model, int degree) {
  if (degree == 1) return Sharing{};
  const bool forced = IsForced(model, degree);
  if (!forced && !model.forced_degrees.empty()) return std::nullopt;
  const bool narrow_enough =
      model.max_switch_degree == 0 || model.max_switch_degree >= degree;
  if (IsVideo(model) && narrow_enough && MayUse(model, SpMode::kSwitch)) {
    return Sharing{SpMode::kSwitch, 1, 1};
  }
  if (MayUse(model, SpMode::kUlysses) &&
      (forced || HeadsDivide(model, degree))) {
    return Sharing{SpMode::kUlysses, degree, 1};
  }
  if (MayUse(model, SpMode::kKvGather)) {
    return Sharing{SpMode::kKvGather, 1, degree};
  }
  if (MayUse(model, SpMode::kBoth)) {
    for (int gather = 2; gather < degree; ++gather) {
      if (degree % gather != 0) continue;
      if (!HeadsDivide(model, degree / gather)) continue;
      return Sharing{SpMode::kBoth, degree / gather, gather};
    }
  }
  return std::nullopt;
}

std::optional<int64_t> PaddedTokensOf(const PlanRequest& request,
                                      const MicroBatch& batch) {
  const Sharing sharing = *SharingAt(request.model, batch.degree);
  Wide tokens = 0;
  for (int index : batch.samples) {
    const Sample& s = request.samples[index];
    Wide own = s.length;
    if (sharing.gather > 1) own = RoundUp(own, 2 * batch.degree);
    if (sharing.mode == SpMode::kSwitch) {
      const Wide patches = Wide{s.height} * s.width;
      if (s.frames < batch.degree || patches < batch.degree) {
        return std::nullopt;
      }
      own = std::max(RoundUp(s.frames, batch.degree) * patches,
                     RoundUp(patches, batch.degree) * s.frames);
    }
    tokens += own;
  }
  return static_cast<int64_t>(RoundUp(tokens, batch.degree));
}

int64_t NanosecondsOf(const PlanRequest& request, const MicroBatch& batch) {
  const std::vector<Kind> kinds = KindsOf(request, batch);
  Wide total = request.time.micro_batch_fixed_ns;
  total += ComputeNs(request, batch, kinds);
  if (batch.degree > 1) total += CollectiveNs(request, batch, kinds);
  const auto& speeds = request.cluster.rank_speed;
  if (speeds.empty()) return static_cast<int64_t>(total);
  double slowest = speeds[batch.first_rank];
  for (int rank = 0; rank < batch.degree; ++rank) {
    slowest = std::fmin(slowest, speeds[batch.first_rank + rank]);
  }
  const Wide speed = std::llround(slowest * 1048576.0);
  const Wide scaled = total * 1048576;
  return static_cast<int64_t>(scaled / speed + (scaled % speed != 0 ? 1 : 0));
}

Wide BytesPerTokenOf(const PlanRequest& request, const MicroBatch& batch) {
  const MemoryModel& memory = request.memory;
  const Sharing sharing = *SharingAt(request.model, batch.degree);
  const int own_heads = request.model.kv_heads;
  const int heads = KvHeadsOfGroup(request.model, sharing.ulysses);
  const Wide gathered = sharing.gather > 1
                            ? Wide{memory.gathered_bytes_per_token} *
                                  sharing.gather * heads / own_heads
                            : 0;
  std::vector<Kind> kinds = KindsOf(request, batch);
  if (!IsVideo(request.model)) {
    const int more = heads - own_heads;
    kinds[0].memory.layer_bytes_per_token +=
        more * memory.kv_head_bytes_per_token;
  }
  return std::max<Wide>(1, PeakOfPass(LayersInOrder(kinds),
                                      memory.head_bytes_per_token, gathered));
}

Wide BytesOf(const PlanRequest& request, const MicroBatch& batch) {
  const MemoryModel& memory = request.memory;
  const bool stated = IsVideo(request.model)
                          ? memory.spatial.layer_bytes_per_token > 0 ||
                                memory.temporal.layer_bytes_per_token > 0
                          : memory.layer_bytes_per_token > 0;
  if (memory.tokens_per_rank != 0 && !stated) return 0;
  return std::min<Wide>(INT64_MAX, BytesPerTokenOf(request, batch) *
                                       (batch.padded_tokens / batch.degree));
}

int64_t TokensARankHolds(const PlanRequest& request, const MicroBatch& batch) {
  const MemoryModel& memory = request.memory;
  if (memory.tokens_per_rank != 0) return memory.tokens_per_rank;
  return std::min<int64_t>(
      kMaxTokensPerRank, static_cast<int64_t>(memory.activation_bytes /
                                              BytesPerTokenOf(request, batch)));
}

}  // namespace evenstep::planner::checker
