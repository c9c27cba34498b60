#include "jobspec/video_memory.h"

#include <gtest/gtest.h>

#include "planner/costs/memory_model.h"

namespace evenstep::jobspec {
namespace {

ModelSpec Model() {
  ModelSpec model;
  model.kind = ModelKind::kVideo;
  model.layers = 4;
  model.width = 64;
  model.heads = model.kv_heads = 4;
  model.channels = 3;
  model.patch = 2;
  return model;
}

TEST(VideoMemoryTest, CountsWhatALayerLeavesAndWhatThePassHolds) {
  const auto memory = VideoMemory(Model(), Precision::kFloat32);
  EXPECT_EQ(memory.spatial, memory.temporal);
  EXPECT_EQ(memory.spatial.layer_bytes_per_token,
            4 * (13 * 64 + 4 * 192 + 4 + 2));
  EXPECT_EQ(memory.spatial.kept_bytes_per_token, 4 * 64);
  // 12 values of a patch, heads of 16.
  const int64_t whole = 8 * 12 + 8 * (2 * 12 + 1) + 4 * 12 + 4 * 2 * 16;
  EXPECT_EQ(memory.spatial.backward_bytes_per_token,
            4 * (64 + 2 * 192) + whole);
  EXPECT_EQ(memory.head_bytes_per_token, whole + 4 * (4 * 64 + 12));
  EXPECT_EQ(memory.layer_bytes_per_token, 0);
  EXPECT_EQ(memory.gathered_bytes_per_token, 0);
}

TEST(VideoMemoryTest, LargePatchesCountInTheHead) {
  ModelSpec model = Model();
  const auto before = VideoMemory(model, Precision::kFloat32);
  model.channels = 64;
  const auto after = VideoMemory(model, Precision::kFloat32);
  EXPECT_EQ(after.spatial.layer_bytes_per_token,
            before.spatial.layer_bytes_per_token);
  EXPECT_EQ(after.head_bytes_per_token - after.spatial.backward_bytes_per_token,
            4 * (3 * 64 + 4 * 256) - 4 * (64 + 2 * 192));
}

TEST(VideoMemoryTest, PlansOfVideoJobsKnowTheirBytes) {
  JobSpec spec;
  spec.model = Model();
  const planner::PlanRequest request = ToPlanRequest(spec);
  const auto memory = VideoMemory(spec.model, spec.precision);
  const int64_t layer = memory.spatial.layer_bytes_per_token;
  EXPECT_EQ(planner::BytesPerToken(request, 0, 1),
            4 * layer + memory.spatial.backward_bytes_per_token);
  EXPECT_EQ(planner::BytesPerToken(request, planner::LayerCounts(2, 2), 2),
            4 * memory.spatial.kept_bytes_per_token + layer +
                memory.spatial.backward_bytes_per_token);
}

}  // namespace
}  // namespace evenstep::jobspec
