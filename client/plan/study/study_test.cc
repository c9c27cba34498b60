#include "client/plan/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace evenstep::plan {
namespace {

using ::testing::HasSubstr;

StudyConstants SmallStudy() {
  StudyConstants constants;
  constants.models = {"h200-1.2b-1d"};
  constants.laws = {"balanced"};
  constants.samples_per_step = 48;
  constants.num_seeds = 2;
  return constants;
}

TEST(StudyTest, IntervalsAreStudents) {
  const Interval interval = IntervalOf({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(interval.mean, 2.5);
  // 3.182 * 1.29099 / 2.
  EXPECT_NEAR(interval.half_width, 2.054, 0.001);
  EXPECT_EQ(IntervalOf({7}).half_width, 0);
}

TEST(StudyTest, EvenIsNeverSlowerThanDcpIntraAtEqualSamples) {
  const StudyTable table = RunEqualSamples(SmallStudy(), [](const auto&) {});
  ASSERT_EQ(table.rows.size(), 1u);
  const StudyRow& row = table.rows[0];
  ASSERT_THAT(row.error, "");
  ASSERT_EQ(row.cells.size(), table.policies.size());
  EXPECT_DOUBLE_EQ(row.cells[0].speedup.mean, 1);
  EXPECT_GE(row.worst_even_over_intra, 1);
  EXPECT_GE(row.even_over_bound.mean, 1);
  const std::string text = ToMarkdown(table);
  EXPECT_THAT(text, HasSubstr("| h200-1.2b-1d | balanced |"));
  EXPECT_THAT(text, HasSubstr("`even`"));
}

TEST(StudyTest, FloatingBatchesAreComparedByTheirWork) {
  StudyConstants constants = SmallStudy();
  constants.elastic_steps = 2;
  constants.pool_samples = 256;
  const StudyTable table = RunAsPublished(constants, [](const auto&) {});
  ASSERT_EQ(table.rows.size(), 1u);
  const StudyRow& row = table.rows[0];
  ASSERT_THAT(row.error, "");
  EXPECT_DOUBLE_EQ(row.cells[0].speedup.mean, 1);
  EXPECT_DOUBLE_EQ(row.cells[0].recompute.mean, 1);
  EXPECT_LT(row.cells.back().recompute.mean, 1);
  EXPECT_GE(row.worst_even_over_intra, 1);
}

TEST(StudyTest, AModelThatCannotRunIsSaidInItsRow) {
  StudyConstants constants = SmallStudy();
  constants.models = {"no-such-model"};
  const StudyTable table = RunEqualSamples(constants, [](const auto&) {});
  EXPECT_THAT(table.rows[0].error, HasSubstr("no-such-model"));
  EXPECT_THAT(ToMarkdown(table), HasSubstr("no plan: "));
}

}  // namespace
}  // namespace evenstep::plan
