#include "worker/trainer/profile/fit_profile.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST(ProfilePointsTest, TwoDepthsSeveralLengthsDegreesAndRecompute) {
  const auto points = ProfilePoints({Model(8), 4096, 2});
  const auto has = [&](auto predicate) {
    return std::any_of(points.begin(), points.end(), predicate);
  };
  EXPECT_THAT(ProfileDepths(Model(8)), ElementsAre(1, 3));
  for (const int layers : {1, 3}) {
    for (const int64_t length : {16, 64, 256, 1024, 4096}) {
      EXPECT_TRUE(has([&](const ProfilePoint& p) {
        return p.layers == layers && p.degree == 1 && !p.held_out &&
               p.lengths == std::vector<int64_t>{length};
      })) << layers
          << " layers, " << length << " tokens";
    }
  }
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return p.recompute_layers == 3 && !p.held_out;
  }));
  EXPECT_TRUE(has([](const ProfilePoint& p) { return p.degree == 2; }));
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return p.held_out && p.lengths.size() > 1;
  }));
}

TEST(ProfilePointsTest, AFilledMemoryIsMeasuredInDocuments) {
  const auto points = ProfilePoints(
      {.model = Model(8), .longest = 1000, .fullest = 4500, .smallest = 300});
  std::vector<std::vector<int64_t>> shallow;
  for (const ProfilePoint& p : points) {
    if (p.layers == 1) shallow.push_back(p.lengths);
    for (const int64_t length : p.lengths) EXPECT_LE(length, 1000);
  }
  const std::vector<int64_t> full = {1000, 1000, 1000, 1000, 500};
  EXPECT_THAT(shallow, ElementsAre(full, ElementsAre(1000, 125)));
  // Short documents, so that tokens and pairs of tokens are told apart.
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const auto& p) {
    return !p.held_out && p.lengths.size() == 73 && p.lengths[0] == 62;
  }));
}

TEST(ProfilePointsTest, DegreesAreThoseOfTheHeadsAndTheRanks) {
  EXPECT_THAT(ProfileDegrees({Model(2), 100, 4}), ElementsAre(2, 4));
  EXPECT_THAT(ProfileDegrees({Model(2), 100, 1}), IsEmpty());
  jobspec::ModelSpec odd = Model(2);
  odd.heads = odd.kv_heads = 3;
  odd.width = 66;
  EXPECT_THAT(ProfileDegrees({odd, 100, 4}), IsEmpty());
}

TEST(ProfilePointsTest, NoPointIsLargerThanMemoryOrEmpty) {
  for (const int64_t longest : {1, 2, 5, 33}) {
    for (const ProfilePoint& point : ProfilePoints({Model(1), longest, 2})) {
      int64_t tokens = 0;
      for (const int64_t length : point.lengths) {
        EXPECT_GE(length, 1);
        tokens += length;
      }
      EXPECT_LE(tokens, std::max<int64_t>(3, longest));
    }
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
