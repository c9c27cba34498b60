#include "jobspec/decoder_memory.h"

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
}  // namespace evenstep::jobspec
