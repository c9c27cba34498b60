#include "worker/trainer/profile/measure_costs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> SizesUnder(int64_t tokens_per_rank) {
  MeasureOptions options;
  options.tokens_per_rank = tokens_per_rank;
  return MeasuredSizes(options);
}

TEST(MeasuredSizesTest, AreTheJobsOwnWhereMemoryAllows) {
  EXPECT_THAT(SizesUnder(8192), ElementsAre(16, 512, 4096));
  EXPECT_THAT(SizesUnder(4096), ElementsAre(16, 512, 4096));
}

TEST(MeasuredSizesTest, NeverExceedMemoryAndStayApart) {
  EXPECT_THAT(SizesUnder(256), ElementsAre(4, 32, 256));
  EXPECT_THAT(SizesUnder(10), ElementsAre(1, 10));
  EXPECT_THAT(SizesUnder(1), ElementsAre(1));
}

}  // namespace

namespace {

using data::ClipShape;
using ::testing::ElementsAre;

ClipMeasureOptions Options(int64_t tokens_per_rank) {
  ClipMeasureOptions options;
  options.tokens_per_rank = tokens_per_rank;
  options.model.spatial_layers = options.model.temporal_layers = 3;
  return options;
}

TEST(MeasuredShapesTest, AreOfBothAxesAndWithinMemory) {
  EXPECT_THAT(MeasuredShapes(Options(4096)),
              ElementsAre(ClipShape{1, 1, 16}, ClipShape{1, 1, 1024},
                          ClipShape{1024, 1, 1}, ClipShape{16, 1, 16},
                          ClipShape{32, 1, 32}));
  for (const ClipShape& shape : MeasuredShapes(Options(10))) {
    EXPECT_LE(shape.tokens(), 10);
  }
  EXPECT_THAT(MeasuredShapes(Options(1)), ElementsAre(ClipShape{1, 1, 1}));
}

// What made the points is found again, recompute taken out.
TEST(FitClipComputeTest, FindsTheCostsOfEitherKindOfLayer) {
  ClipMeasureOptions options = Options(4096);
  options.recompute_layers = planner::LayerCounts(3, 0);
  std::vector<ClipPoint> points;
  for (const ClipShape& shape : MeasuredShapes(options)) {
    const auto tokens = static_cast<double>(shape.tokens());
    const double spatial = 4.0 / 3.0;  // all of these layers run again
    points.push_back(
        {shape,
         50000 + 300 * tokens * (spatial + 1) +
             2.0 * tokens * static_cast<double>(shape.patches()) * spatial +
             5.0 * tokens * static_cast<double>(shape.frames)});
  }
  const planner::TimeModel costs = FitClipCompute(points, options);
  EXPECT_NEAR(static_cast<double>(costs.micro_batch_fixed_ns), 50000, 50);
  EXPECT_NEAR(costs.spatial.linear_ns_per_token, 300, 0.5);
  EXPECT_NEAR(costs.temporal.linear_ns_per_token, 300, 0.5);
  EXPECT_NEAR(costs.spatial.quadratic_ns_per_token2, 2, 0.01);
  EXPECT_NEAR(costs.temporal.quadratic_ns_per_token2, 5, 0.01);
  EXPECT_EQ(costs.linear_ns_per_token, 0);
}

}  // namespace

}  // namespace evenstep::trainer
