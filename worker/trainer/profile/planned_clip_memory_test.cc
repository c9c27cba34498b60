// The planner's memory formula with a diffusion Transformer's constants,
// against what tensors take, as planned_memory_test.cc does for text: no
// constant is fitted to what is measured here. Clips divide evenly among the
// ranks; where they do not, the planner counts the fullest rank and order for
// all layers, and says more than is held.

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "jobspec/job_spec.h"
#include "worker/trainer/testing/memory_sweep.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using planner::LayerCounts;
using planner::SpMode;
using testing::ClipMemoryCase;
using testing::CompareMemory;
using testing::MemorySweep;

jobspec::JobSpec Job(int layers, int width) {
  jobspec::JobSpec job;
  job.model.kind = jobspec::ModelKind::kVideo;
  job.model.layers = layers;
  job.model.width = width;
  job.model.heads = job.model.kv_heads = 4;
  job.model.channels = 3;
  job.model.patch = 2;
  return job;
}

DiffusionTransformerConfig ConfigOf(const jobspec::JobSpec& job) {
  DiffusionTransformerConfig config;
  config.layers = job.model.layers;
  config.width = job.model.width;
  config.heads = job.model.heads;
  config.channels = job.model.channels * job.model.patch * job.model.patch;
  config.dtype = job.precision == jobspec::Precision::kBFloat16 ? at::kBFloat16
                                                                : at::kFloat;
  return config;
}

void Check(const jobspec::JobSpec& job, const ClipMemoryCase& what,
           MemorySweep* sweep) {
  sweep->Check(
      CompareMemory(job, ConfigOf(job), what),
      absl::StrCat(job.model.layers, " layers of width ", job.model.width, ", ",
                   what.shapes.size(), " clips, the first of ",
                   what.shapes[0].frames, " frames and ",
                   what.shapes[0].patches(), " patches, degree ", what.degree,
                   ", ", what.recompute_layers[0], " spatial and ",
                   what.recompute_layers[1], " temporal layers recomputed"));
}

// Of four layers of a kind.
const std::vector<LayerCounts> kRecompute = {
    {0, 0}, {1, 0}, {0, 1}, {2, 2}, {3, 1}, {1, 4}, {4, 0}, {4, 2}, {4, 4}};

TEST(PlannedClipMemoryTest, IsWithinATenthOverShapesDegreesAndRecompute) {
  MemorySweep sweep("switch");
  const jobspec::JobSpec job = Job(8, 64);
  for (const ClipShape& shape : {ClipShape{8, 8, 8}, ClipShape{32, 4, 4}}) {
    for (const int degree : {1, 2, 4}) {
      for (const LayerCounts& recompute : kRecompute) {
        Check(job, {{shape}, degree, recompute}, &sweep);
      }
    }
  }
}

TEST(PlannedClipMemoryTest, PackedClipsTakeWhatTheirTokensDo) {
  MemorySweep sweep("packed");
  const jobspec::JobSpec job = Job(8, 64);
  for (const int degree : {1, 2}) {
    for (const LayerCounts& recompute : kRecompute) {
      Check(job, {{{8, 4, 4}, {16, 4, 4}, {4, 8, 8}}, degree, recompute},
            &sweep);
    }
  }
}

TEST(PlannedClipMemoryTest, ExchangedHeadsTakeAsMuch) {
  MemorySweep sweep("heads");
  jobspec::JobSpec job = Job(8, 64);
  job.model.sp_modes = {SpMode::kUlysses};
  for (const int degree : {2, 4}) {
    for (const LayerCounts& recompute : kRecompute) {
      Check(job, {{{8, 8, 8}}, degree, recompute, SpMode::kUlysses}, &sweep);
    }
  }
}

TEST(PlannedClipMemoryTest, FollowsWidthDepthPatchesAndPrecision) {
  MemorySweep sweep("other models");
  const ClipMemoryCase what = {{{8, 8, 8}}, 2};
  Check(Job(2, 128), what, &sweep);
  Check(Job(4, 256), what, &sweep);
  jobspec::JobSpec patches = Job(4, 64);
  patches.model.channels = 16;
  Check(patches, what, &sweep);
  jobspec::JobSpec half = Job(4, 128);
  half.precision = jobspec::Precision::kBFloat16;
  for (const LayerCounts& recompute :
       {LayerCounts(0, 0), LayerCounts(1, 1), LayerCounts(2, 2)}) {
    Check(half, {{{8, 8, 8}}, 1, recompute}, &sweep);
  }
}

// A layer that is counted though it is gone shows most where there are few.
TEST(PlannedClipMemoryTest, ShallowModelsAreWithinATenthWhateverRunsAgain) {
  MemorySweep sweep("two and four layers");
  for (const int layers : {2, 4}) {
    const int of_kind = layers / 2;
    for (int spatial = 0; spatial <= of_kind; ++spatial) {
      for (int temporal = 0; temporal <= of_kind; ++temporal) {
        Check(Job(layers, 64), {{{8, 8, 8}}, 1, LayerCounts(spatial, temporal)},
              &sweep);
      }
    }
  }
}

// 9 frames on 2 ranks: one holds 5, and no order has more of the clip.
TEST(PlannedClipMemoryTest, UnevenClipsAreNeverPredictedTooSmall) {
  const jobspec::JobSpec job = Job(4, 64);
  const ClipMemoryCase what = {{{9, 8, 8}}, 2, LayerCounts(0, 0)};
  const double error = CompareMemory(job, ConfigOf(job), what).error();
  EXPECT_GE(error, -0.02);
  EXPECT_LE(error, 0.2);
}

}  // namespace
}  // namespace evenstep::trainer
