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

using data::ClipShape;

TEST(MeasuredShapesTest, AreOfBothAxesAndWithinMemory) {
  EXPECT_THAT(MeasuredShapes(4096),
              ElementsAre(ClipShape{1, 1, 16}, ClipShape{1, 1, 1024},
                          ClipShape{1024, 1, 1}, ClipShape{16, 1, 16},
                          ClipShape{32, 1, 32}));
  for (const ClipShape& shape : MeasuredShapes(10)) {
    EXPECT_LE(shape.tokens(), 10);
  }
  EXPECT_THAT(MeasuredShapes(1), ElementsAre(ClipShape{1, 1, 1}));
}

}  // namespace
}  // namespace evenstep::trainer
