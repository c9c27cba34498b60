#include "jobspec/job_spec.h"

#include "planner/costs/memory_model.h"

namespace evenstep::jobspec {

data::DatasetOptions ToDatasetOptions(const JobSpec& spec) {
  data::DatasetOptions options;
  options.source = spec.data.source;
  options.tokenizer = spec.data.tokenizer;
  options.max_length = spec.data.max_length;
  options.vocab = spec.model.is_video() ? 0 : spec.model.vocab;
  options.on_too_long = spec.data.on_too_long;
  options.on_bad_sample = spec.data.on_bad_sample;
  options.patch = spec.model.patch;
  options.channels = spec.model.channels;
  return options;
}

data::DatasetOptions ToEvaluationOptions(const JobSpec& spec) {
  data::DatasetOptions options = ToDatasetOptions(spec);
  options.source = spec.evaluation.source;
  return options;
}

planner::ModelShape ToModelShape(const ModelSpec& model) {
  planner::ModelShape shape;
  if (model.is_video()) {
    shape.spatial_layers = shape.temporal_layers = model.layers / 2;
    shape.max_switch_degree = model.max_switch_degree;
  } else {
    shape.num_layers = model.layers;
  }
  shape.width = model.width;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads;
  shape.sp_modes = model.sp_modes;
  shape.expand_kv_heads = model.expand_kv_heads;
  return shape;
}

planner::LayerCounts ToRecomputeLayers(const MemorySpec& memory) {
  return {memory.recompute_layers, memory.recompute_temporal_layers};
}

int NumAlignedGroups(int ranks) {
  int groups = 0;
  int64_t degree = 2;
  for (; degree <= ranks; degree *= 2) ++groups;
  return degree / 2 == ranks || ranks == 1 ? groups : groups + 1;  // the world
}

}  // namespace evenstep::jobspec
