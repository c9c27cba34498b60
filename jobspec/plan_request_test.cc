#include "jobspec/plan_request.h"

#include <gtest/gtest.h>

#include "planner/costs/memory_model.h"

namespace evenstep::jobspec {
namespace {

TEST(DecoderMemoryTest, CountsWhatALayerLeaves) {
  ModelSpec model;
  model.width = 64;
  model.heads = 4;
  model.kv_heads = 2;
  model.vocab = 257;
  EXPECT_EQ(DecoderMlpWidth(64), 192);
  const auto memory = DecoderMemory(model, Precision::kFloat32);
  EXPECT_EQ(memory.layer_bytes_per_token,
            4 * (7 * 64 + 2 * 32 + 4 * 192 + 4 + 2));
  EXPECT_EQ(memory.kept_bytes_per_token, 4 * 64);
  EXPECT_EQ(memory.gathered_bytes_per_token, 4 * 6 * 32);
  EXPECT_EQ(memory.kv_head_bytes_per_token, 4 * 2 * 16);
  EXPECT_EQ(memory.tokens_per_rank, 0);
  const auto twice = DecoderMemory(model, Precision::kFloat64);
  EXPECT_EQ(twice.layer_bytes_per_token, 2 * memory.layer_bytes_per_token);
  EXPECT_EQ(twice.head_bytes_per_token, 2 * memory.head_bytes_per_token);
}

TEST(DecoderMemoryTest, HalfPrecisionKeepsWhatMustBeExactInFloat32) {
  ModelSpec model;
  model.kv_heads = 4;
  const auto half = DecoderMemory(model, Precision::kBFloat16);
  const auto full = DecoderMemory(model, Precision::kFloat32);
  EXPECT_EQ(half.kept_bytes_per_token, full.kept_bytes_per_token / 2);
  EXPECT_GT(half.layer_bytes_per_token, full.layer_bytes_per_token / 2);
  EXPECT_GT(half.head_bytes_per_token, full.head_bytes_per_token / 2);
}

// Its layers may hold anything.
TEST(ModelMemoryTest, OfAModelByANameNothingIsPredicted) {
  JobSpec spec;
  spec.memory.tokens_per_rank = 100;
  EXPECT_GT(planner::PredictBytes(ToPlanRequest(spec), {0, 0}, 1, 50), 0);
  spec.model.name = "own";
  EXPECT_EQ(planner::PredictBytes(ToPlanRequest(spec), {0, 0}, 1, 50), 0);
}

}  // namespace

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
