#include "jobspec/video_memory.h"

#include <algorithm>
#include <cstdint>

#include "jobspec/decoder_memory.h"

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

}  // namespace evenstep::jobspec
