#include "worker/trainer/profile/profile_points.h"

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

jobspec::ModelSpec VideoModel(int layers) {
  jobspec::ModelSpec model = Model(layers);
  model.kind = jobspec::ModelKind::kVideo;
  model.channels = 3;
  return model;
}

TEST(ClipPointsTest, HaveTwoDepthsBothAxesDegreesAndRecomputeOfEitherKind) {
  EXPECT_THAT(ProfileDepths(VideoModel(8)), ElementsAre(2, 4));
  EXPECT_THAT(ProfileDepths(VideoModel(2)), ElementsAre(2));
  const auto points = ProfilePoints({VideoModel(8), 4096, 2});
  const auto has = [&](auto predicate) {
    return std::any_of(points.begin(), points.end(), predicate);
  };
  for (const int layers : {2, 4}) {
    EXPECT_TRUE(has([&](const ProfilePoint& p) {
      return p.layers == layers && !p.held_out &&
             p.shapes == std::vector<data::ClipShape>{{64, 8, 8}};
    })) << layers;
  }
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return !p.held_out && p.shapes[0].frames == 1;
  }));
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return !p.held_out && p.shapes[0].patches() == 1;
  }));
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return p.recompute_layers == 2 && p.recompute_temporal_layers == 0;
  }));
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return p.recompute_layers == 0 && p.recompute_temporal_layers == 2;
  }));
  EXPECT_TRUE(has([](const ProfilePoint& p) {
    return p.degree == 2 && p.held_out && p.shapes.size() > 1;
  }));
}

TEST(ClipPointsTest, AreSharedOnlyWhereThereAreFramesAndPatchesForAllRanks) {
  for (const int64_t longest : {1, 2, 16, 33, 500}) {
    const ProfileShape shape = {VideoModel(4), longest, 4};
    const auto points = ProfilePoints(shape);
    EXPECT_FALSE(points.empty());
    for (const ProfilePoint& point : points) {
      ASSERT_EQ(point.lengths.size(), point.shapes.size());
      int64_t tokens = 0;
      for (size_t i = 0; i < point.shapes.size(); ++i) {
        EXPECT_EQ(point.lengths[i], point.shapes[i].tokens());
        EXPECT_GE(point.lengths[i], 1);
        EXPECT_GE(point.shapes[i].frames, point.degree);
        EXPECT_GE(point.shapes[i].patches(), point.degree);
        tokens += point.lengths[i];
      }
      EXPECT_LE(tokens, std::max<int64_t>(2, longest));
    }
  }
}

TEST(ClipPointsTest, AFilledMemoryIsMeasuredInClips) {
  const auto points = ProfilePoints({.model = VideoModel(4),
                                     .longest = 1000,
                                     .fullest = 4500,
                                     .smallest = 300});
  size_t most = 0;
  for (const ProfilePoint& point : points) {
    most = std::max(most, point.shapes.size());
    for (const int64_t length : point.lengths) EXPECT_LE(length, 1000);
  }
  EXPECT_EQ(most, 5u);
}

}  // namespace
}  // namespace evenstep::trainer
