// The planner's memory formula with a diffusion Transformer's constants,
// against what tensors take, as planned_memory_test.cc does for text: no
// constant is fitted to what is measured here. Clips divide evenly among the
// ranks; where they do not, the planner counts the fullest rank and order for
// all layers, and says more than is held.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "jobspec/job_spec.h"
#include "planner/costs/memory_model.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/testing/measure_memory.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using planner::LayerCounts;
using planner::SpMode;
using testing::ClipMemoryCase;
using testing::MeasureMemory;
using testing::MemoryUse;

constexpr double kTolerance = 0.1;

// Before any tensor of the process.
const bool kCounted = [] {
  CountTensorBytes();
  return true;
}();

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

// Predicted over measured, minus 1.
double ErrorOf(const jobspec::JobSpec& job, const ClipMemoryCase& what) {
  const auto use = MeasureMemory(ConfigOf(job), what);
  EXPECT_TRUE(use.ok()) << use.status();
  if (!use.ok()) return 1;
  const int64_t predicted =
      planner::PredictBytes(jobspec::ToPlanRequest(job), what.recompute_layers,
                            what.degree, use->own_tokens * what.degree);
  return static_cast<double>(predicted) / static_cast<double>(use->bytes) - 1;
}

// What a sweep sees of the errors.
class Sweep {
 public:
  explicit Sweep(const char* name) : name_(name) {}
  ~Sweep() {
    std::printf("predicted memory, %s: %.1f %% to %+.1f %% over %d cases\n",
                name_, 100 * least_, 100 * most_, count_);
  }

  void Check(const jobspec::JobSpec& job, const ClipMemoryCase& what) {
    const double error = ErrorOf(job, what);
    least_ = count_ == 0 ? error : std::min(least_, error);
    most_ = count_ == 0 ? error : std::max(most_, error);
    ++count_;
    EXPECT_LE(std::abs(error), kTolerance)
        << job.model.layers << " layers of width " << job.model.width << ", "
        << what.shapes.size() << " clips, the first of "
        << what.shapes[0].frames << " frames and " << what.shapes[0].patches()
        << " patches, degree " << what.degree << ", "
        << what.recompute_layers[0] << " spatial and "
        << what.recompute_layers[1] << " temporal layers recomputed";
  }

 private:
  const char* const name_;
  double least_ = 0;
  double most_ = 0;
  int count_ = 0;
};

// Of four layers of a kind.
const std::vector<LayerCounts> kRecompute = {
    {0, 0}, {1, 0}, {0, 1}, {2, 2}, {3, 1}, {1, 4}, {4, 0}, {4, 2}, {4, 4}};

TEST(PlannedClipMemoryTest, IsWithinATenthOverShapesDegreesAndRecompute) {
  ASSERT_TRUE(kCounted);
  Sweep sweep("switch");
  const jobspec::JobSpec job = Job(8, 64);
  for (const ClipShape& shape : {ClipShape{8, 8, 8}, ClipShape{32, 4, 4}}) {
    for (const int degree : {1, 2, 4}) {
      for (const LayerCounts& recompute : kRecompute) {
        sweep.Check(job, {{shape}, degree, recompute});
      }
    }
  }
}

TEST(PlannedClipMemoryTest, PackedClipsTakeWhatTheirTokensDo) {
  Sweep sweep("packed");
  const jobspec::JobSpec job = Job(8, 64);
  for (const int degree : {1, 2}) {
    for (const LayerCounts& recompute : kRecompute) {
      sweep.Check(job, {{{8, 4, 4}, {16, 4, 4}, {4, 8, 8}}, degree, recompute});
    }
  }
}

TEST(PlannedClipMemoryTest, ExchangedHeadsTakeAsMuch) {
  Sweep sweep("heads");
  jobspec::JobSpec job = Job(8, 64);
  job.model.sp_modes = {SpMode::kUlysses};
  for (const int degree : {2, 4}) {
    for (const LayerCounts& recompute : kRecompute) {
      sweep.Check(job, {{{8, 8, 8}}, degree, recompute, SpMode::kUlysses});
    }
  }
}

TEST(PlannedClipMemoryTest, FollowsWidthDepthPatchesAndPrecision) {
  Sweep sweep("other models");
  const ClipMemoryCase what = {{{8, 8, 8}}, 2};
  sweep.Check(Job(2, 128), what);
  sweep.Check(Job(4, 256), what);
  jobspec::JobSpec patches = Job(4, 64);
  patches.model.channels = 16;
  sweep.Check(patches, what);
  jobspec::JobSpec half = Job(4, 128);
  half.precision = jobspec::Precision::kBFloat16;
  for (const LayerCounts& recompute :
       {LayerCounts(0, 0), LayerCounts(1, 1), LayerCounts(2, 2)}) {
    sweep.Check(half, {{{8, 8, 8}}, 1, recompute});
  }
}

// A layer that is counted though it is gone shows most where there are few.
TEST(PlannedClipMemoryTest, ShallowModelsAreWithinATenthWhateverRunsAgain) {
  Sweep sweep("two and four layers");
  for (const int layers : {2, 4}) {
    const int of_kind = layers / 2;
    for (int spatial = 0; spatial <= of_kind; ++spatial) {
      for (int temporal = 0; temporal <= of_kind; ++temporal) {
        sweep.Check(Job(layers, 64),
                    {{{8, 8, 8}}, 1, LayerCounts(spatial, temporal)});
      }
    }
  }
}

// 9 frames on 2 ranks: one holds 5, and no order has more of the clip.
TEST(PlannedClipMemoryTest, UnevenClipsAreNeverPredictedTooSmall) {
  const jobspec::JobSpec job = Job(4, 64);
  const double error = ErrorOf(job, {{{9, 8, 8}}, 2, LayerCounts(0, 0)});
  EXPECT_GE(error, -0.02);
  EXPECT_LE(error, 0.2);
}

}  // namespace
}  // namespace evenstep::trainer
