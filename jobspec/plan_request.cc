#include "jobspec/plan_request.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/costs/memory_model.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

constexpr int64_t kIndexBytes = 8;
// Of a token: condition, frame, row and column in both orders, and where the
// switch takes it from and puts it, there and back.
constexpr int64_t kIndices = 12;

// What a pass holds from its first operation to its last.
int64_t WholePassBytes(const ModelSpec& model, int64_t patch_values,
                       int64_t element, int64_t exact) {
  constexpr int64_t kShardElement = 8;  // noised in float64
  const int64_t head_dim = model.width / model.heads;
  return kIndexBytes * kIndices + kShardElement * (2 * patch_values + 1) +
         element * patch_values + exact * 2 * head_dim;
}

// Of a text model in quarters, of each kind of a video model in halves.
void AddRecomputeChoices(planner::PlanRequest* request) {
  constexpr int kQuarters = 4;
  constexpr int kHalves = 2;
  const planner::LayerCounts layers = request->model.layers();
  std::vector<planner::LayerCounts>& choices =
      request->options.recompute_choices;
  if (!request->model.is_video()) {
    for (int quarter = 0; quarter <= kQuarters; ++quarter) {
      choices.emplace_back(layers.total() * quarter / kQuarters);
    }
    return;
  }
  for (int spatial = 0; spatial <= kHalves; ++spatial) {
    for (int temporal = 0; temporal <= kHalves; ++temporal) {
      choices.emplace_back(layers[0] * spatial / kHalves,
                           layers[1] * temporal / kHalves);
    }
  }
}

// The bytes that tokens_per_rank tokens take with nothing recomputed bound
// every choice.
void LetThePlanChoose(planner::PlanRequest* request) {
  AddRecomputeChoices(request);
  planner::MemoryModel& memory = request->memory;
  memory.activation_bytes =
      memory.tokens_per_rank * planner::BytesPerToken(*request, 0, 1);
  memory.tokens_per_rank = 0;
}

}  // namespace

planner::MemoryModel VideoMemory(const ModelSpec& model, Precision precision) {
  const int64_t element = BytesPerElement(precision);
  // Norms, softmax and loss are computed in float32 at least.
  const int64_t exact = std::max<int64_t>(4, element);
  const int64_t width = model.width;
  const int64_t mlp = DecoderMlpWidth(model.width);
  const int64_t patch_values =
      int64_t{model.channels} * model.patch * model.patch;
  const int64_t whole = WholePassBytes(model, patch_values, element, exact);
  planner::LayerMemory layer;
  layer.layer_bytes_per_token =
      element * (13 * width + 4 * mlp) + exact * (model.heads + 2);
  layer.kept_bytes_per_token = element * width;
  layer.backward_bytes_per_token = element * (width + 2 * mlp) + whole;
  planner::MemoryModel memory;
  memory.spatial = memory.temporal = layer;
  // The last norm, modulation and projection keep three widths. Beside them
  // stand first the prediction, the target and two differences, then the
  // gradients of the prediction and of a width.
  memory.head_bytes_per_token =
      whole + 3 * element * width +
      std::max(4 * exact * patch_values,
               element * width + exact * patch_values);
  return memory;
}

int64_t BytesPerElement(Precision precision) {
  switch (precision) {
    case Precision::kBFloat16:
      return 2;
    case Precision::kFloat32:
      return 4;
    case Precision::kFloat64:
      return 8;
  }
  return 4;
}

int DecoderMlpWidth(int width) {
  const int exact = (8 * width + 2) / 3;
  return (exact + 31) / 32 * 32;
}

int MlpWidthOf(const ModelSpec& model) {
  return model.mlp_width > 0 ? model.mlp_width : DecoderMlpWidth(model.width);
}

planner::MemoryModel DecoderMemory(const ModelSpec& model,
                                   Precision precision) {
  const int64_t element = BytesPerElement(precision);
  // Norms, softmax and loss are computed in float32 at least.
  const int64_t exact = element < 4 ? 4 : element;
  const int64_t width = model.width;
  const int64_t head_dim = width / model.heads;
  const int64_t keys = model.kv_heads * head_dim;
  const int64_t mlp = MlpWidthOf(model);
  planner::MemoryModel memory;
  memory.layer_bytes_per_token =
      element * (7 * width + 2 * keys + 4 * mlp) + exact * (model.heads + 2);
  memory.kept_bytes_per_token = element * width;
  memory.backward_bytes_per_token = element * (2 * width + 2 * mlp);
  memory.head_bytes_per_token =
      element * 2 * width + exact * (3 * int64_t{model.vocab} + head_dim);
  memory.gathered_bytes_per_token = 3 * element * 2 * keys;
  memory.kv_head_bytes_per_token = element * 2 * head_dim;
  return memory;
}

planner::MemoryModel ModelMemory(const ModelSpec& model, Precision precision) {
  if (!model.name.empty()) return {};
  return model.is_video() ? VideoMemory(model, precision)
                          : DecoderMemory(model, precision);
}

planner::PlanRequest ToPlanRequest(const JobSpec& spec) {
  planner::PlanRequest request;
  request.run.max_length = spec.data.max_length;
  request.model = ToModelShape(spec.model);
  request.memory = ModelMemory(spec.model, spec.precision);
  request.memory.tokens_per_rank = spec.memory.tokens_per_rank;
  planner::Options& options = request.options;
  options.policy = spec.policy;
  options.blocks = spec.blocks;
  if (spec.blocks == planner::BlockShape::kContiguous) {
    options.max_groups_per_rank =
        spec.groups_per_rank - NumAlignedGroups(spec.ranks);
  }
  options.recompute_layers = ToRecomputeLayers(spec.memory);
  if (spec.memory.recompute == Recompute::kPlan) LetThePlanChoose(&request);
  return request;
}

absl::Status CheckJobFits(const JobSpec& spec) {
  // Where a clip fits depends on its frames, which are known when it is
  // planned.
  if (spec.model.is_video()) return absl::OkStatus();
  planner::PlanRequest request = ToPlanRequest(spec);
  request.cluster.ranks_per_node = {spec.ranks};
  absl::Status fits =
      planner::CheckFits(spec.data.max_length, std::move(request));
  if (!absl::IsFailedPrecondition(fits)) return fits;
  if (spec.ranks == 1 && spec.memory.recompute == Recompute::kFixed &&
      spec.memory.recompute_layers == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data.max_length is ", spec.data.max_length, " and a rank holds ",
        spec.memory.tokens_per_rank,
        " tokens: raise memory.tokens_per_rank to ", spec.data.max_length,
        ", add ranks, or lower data.max_length"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(fits.message(),
                   " (keys data.max_length, ranks, memory.tokens_per_rank)"));
}

}  // namespace evenstep::jobspec
