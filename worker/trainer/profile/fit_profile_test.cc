#include "worker/trainer/profile/fit_profile.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "planner/costs/cost_limits.h"
#include "worker/trainer/profile/profile_points.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;
jobspec::ModelSpec Model(int layers) {
  jobspec::ModelSpec model;
  model.layers = layers;
  model.width = 64;
  model.heads = model.kv_heads = 4;
  return model;
}

// A machine that keeps to the formula of fit_profile.h.
void Time(std::vector<ProfilePoint>* points) {
  for (ProfilePoint& point : *points) {
    double tokens = 0;
    double pairs = 0;
    for (const int64_t length : point.lengths) {
      tokens += static_cast<double>(length);
      pairs += static_cast<double>(length) * static_cast<double>(length);
    }
    const double d = point.degree;
    const double n = point.recompute_layers;
    point.compute_ns =
        3e5 + 2e5 * point.layers + 700 * tokens / d +
        (point.layers + n / 3) * (900 * tokens + 0.5 * pairs) / d;
    if (point.degree == 1) continue;
    point.collective_ns = (8 * point.layers + 4 * n) * 1e5 +
                          (point.layers + n / 2) * tokens * 40 / d;
  }
}

TEST(FitProfileTest, ShallowModelsTellWhatADeepOneCosts) {
  const jobspec::ModelSpec model = Model(8);
  auto points = ProfilePoints({model, 4096, 2});
  Time(&points);
  const ProfileFit fit =
      FitProfile(model, {{1, 5e6 + 1e6}, {3, 5e6 + 3e6}}, &points);
  EXPECT_NEAR(fit.costs.micro_batch_fixed_ns, 3e5 + 8 * 2e5, 1e2);
  EXPECT_NEAR(fit.costs.head_ns_per_token, 700, 1e-1);
  EXPECT_NEAR(fit.costs.linear_ns_per_token, 8 * 900, 1e-1);
  EXPECT_NEAR(fit.costs.quadratic_ns_per_token2, 8 * 0.5, 1e-4);
  EXPECT_NEAR(fit.costs.collective_latency_ns, 1e5, 1);
  ASSERT_EQ(fit.costs.collective.size(), 1);
  EXPECT_EQ(fit.costs.collective[0].degree, 2);
  EXPECT_NEAR(fit.costs.collective[0].ns_per_token, 8 * 40, 1e-2);
  EXPECT_NEAR(fit.costs.step_fixed_ns, 5e6 + 8e6, 1);
  EXPECT_LT(fit.fit_error, 1e-6);
  EXPECT_LT(fit.held_out_error, 1e-6);
}

TEST(FitProfileTest, CostsOfAbsurdTimesCanBePlannedWith) {
  const jobspec::ModelSpec model = Model(8);
  for (const double factor : {0.0, 1e-12, 1e12, 1e300}) {
    auto points = ProfilePoints({model, 4096, 2});
    Time(&points);
    for (ProfilePoint& point : points) {
      point.compute_ns *= factor;
      point.collective_ns *= factor;
    }
    const ProfileFit fit =
        FitProfile(model, {{1, 6e6 * factor}, {3, 8e6 * factor}}, &points);
    const absl::Status status = planner::ValidateTime(fit.costs);
    EXPECT_TRUE(status.ok()) << factor << ": " << status;
  }
}

jobspec::ModelSpec VideoModel(int layers) {
  jobspec::ModelSpec model = Model(layers);
  model.kind = jobspec::ModelKind::kVideo;
  model.channels = 3;
  model.patch = 2;
  return model;
}

// The same machine with clips that divide evenly among their ranks, or not: the
// fullest rank counts.
void TimeClips(std::vector<ProfilePoint>* points) {
  for (ProfilePoint& point : *points) {
    const int64_t d = point.degree;
    const auto whole = [&](int64_t n) { return (n + d - 1) / d * d; };
    double tokens = 0;
    double spatial = 0;
    double temporal = 0;
    for (const data::ClipShape& clip : point.shapes) {
      const int64_t frames = clip.frames;
      const int64_t patches = clip.patches();
      tokens += static_cast<double>(
          std::max(whole(frames) * patches, frames * whole(patches)));
      spatial += static_cast<double>(whole(frames) * patches * patches);
      temporal += static_cast<double>(whole(patches) * frames * frames);
    }
    tokens = static_cast<double>(whole(static_cast<int64_t>(tokens)));
    const double n = point.recompute_layers / 3.0;
    const double m = point.recompute_temporal_layers / 3.0;
    const double kind = point.layers / 2.0;
    point.compute_ns =
        3e5 + 2e5 * point.layers +
        (700 * tokens + (2 * kind + n + m) * 900 * tokens +
         (kind + n) * 0.5 * spatial + (kind + m) * 0.25 * temporal) /
            static_cast<double>(d);
    if (d == 1) continue;
    const double passes = 2 * kind + 1.5 * (n + m);
    point.collective_ns =
        2 * passes * 1e5 + passes * tokens * 40 / static_cast<double>(d);
  }
}

TEST(FitProfileTest, ClipsTellSpatialFromTemporalLayers) {
  const jobspec::ModelSpec model = VideoModel(8);
  auto points = ProfilePoints({model, 4096, 2});
  TimeClips(&points);
  const ProfileFit fit =
      FitProfile(model, {{2, 5e6 + 2e6}, {4, 5e6 + 4e6}}, &points);
  EXPECT_NEAR(fit.costs.micro_batch_fixed_ns, 3e5 + 8 * 2e5, 1e2);
  EXPECT_NEAR(fit.costs.head_ns_per_token, 700, 1e-1);
  EXPECT_NEAR(fit.costs.spatial.linear_ns_per_token, 4 * 900, 1e-1);
  EXPECT_NEAR(fit.costs.temporal.linear_ns_per_token, 4 * 900, 1e-1);
  EXPECT_NEAR(fit.costs.spatial.quadratic_ns_per_token2, 4 * 0.5, 1e-4);
  EXPECT_NEAR(fit.costs.temporal.quadratic_ns_per_token2, 4 * 0.25, 1e-4);
  EXPECT_EQ(fit.costs.linear_ns_per_token, 0);
  EXPECT_NEAR(fit.costs.collective_latency_ns, 1e5, 1);
  ASSERT_EQ(fit.costs.collective.size(), 1);
  EXPECT_NEAR(fit.costs.collective[0].ns_per_token, 8 * 40, 1e-2);
  EXPECT_NEAR(fit.costs.step_fixed_ns, 5e6 + 8e6, 1);
  EXPECT_LT(fit.fit_error, 1e-6);
  EXPECT_LT(fit.held_out_error, 1e-6);
}

// 4 heads: two ranks share by them, three cannot, and gather.
TEST(FitProfileTest, GatheredKeysAndValuesAreFittedByTheirOwnFormula) {
  jobspec::ModelSpec model = Model(8);
  model.sp_modes = {planner::SpMode::kUlysses, planner::SpMode::kKvGather};
  auto points = ProfilePoints({model, 4096, 2});
  for (ProfilePoint point : ProfilePoints({model, 4096, 2})) {
    if (point.degree == 1) continue;
    point.degree = 3;
    points.push_back(point);
  }
  Time(&points);
  for (ProfilePoint& point : points) {
    if (point.degree != 3) continue;
    double tokens = 0;
    for (const int64_t length : point.lengths) {
      tokens += static_cast<double>((length + 5) / 6 * 6);  // zigzag
    }
    const double n = point.recompute_layers;
    point.collective_ns =
        (4 * point.layers + 2 * n) * 1e5 + (point.layers + n / 2) * tokens * 25;
  }
  const ProfileFit fit = FitProfile(model, {{1, 1}, {3, 1}}, &points);
  ASSERT_EQ(fit.costs.collective.size(), 1u);
  EXPECT_NEAR(fit.costs.collective[0].ns_per_token, 8 * 40, 1);
  ASSERT_EQ(fit.costs.gather.size(), 1u);
  EXPECT_EQ(fit.costs.gather[0].degree, 3);
  EXPECT_NEAR(fit.costs.gather[0].ns_per_token, 8 * 25, 1);
  EXPECT_NEAR(fit.costs.collective_latency_ns, 1e5, 1e3);
}

TEST(FitProfileTest, HeldOutPointsShowWhatTheFitDoesNotKnow) {
  auto points = ProfilePoints({Model(2), 4096, 1});
  Time(&points);
  // Mixtures cost twice as much as the formula says.
  int doubled = 0;
  int held_out = 0;
  for (ProfilePoint& point : points) {
    if (!point.held_out) continue;
    ++held_out;
    if (point.lengths.size() < 2) continue;
    point.compute_ns *= 2;
    ++doubled;
  }
  const ProfileFit fit = FitProfile(Model(2), {{1, 1}, {2, 1}}, &points);
  EXPECT_LT(fit.fit_error, 1e-6);
  EXPECT_NEAR(fit.held_out_error, 0.5 * doubled / held_out, 1e-3);
}

TEST(FitProfileTest, NoCostIsEverNegative) {
  auto points = ProfilePoints({Model(2), 4096, 2});
  for (ProfilePoint& point : points) {
    // Falls with length: nothing of the formula does.
    point.compute_ns = 1e7 - 1e3 * static_cast<double>(point.lengths[0]);
    point.collective_ns = point.degree > 1 ? point.compute_ns : 0;
  }
  const planner::TimeModel costs =
      FitProfile(Model(2), {{1, 9}, {2, 3}}, &points).costs;
  EXPECT_GE(costs.micro_batch_fixed_ns, 0);
  EXPECT_GE(costs.linear_ns_per_token, 0);
  EXPECT_GE(costs.quadratic_ns_per_token2, 0);
  EXPECT_GE(costs.collective_latency_ns, 0);
  EXPECT_GE(costs.step_fixed_ns, 0);
}

}  // namespace
}  // namespace evenstep::trainer
