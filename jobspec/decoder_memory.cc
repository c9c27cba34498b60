#include "jobspec/decoder_memory.h"

namespace evenstep::jobspec {

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

}  // namespace evenstep::jobspec
