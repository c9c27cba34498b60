#include "coordinator/steps/step_lengths.h"

#include <malloc.h>

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr StepShape kShape{.world = 2, .batch_samples = 3, .max_length = 100};

// Rank's share of step 4 (ids 12, 13, 14) with lengths id * 2.
v1::LengthReport Report(int rank) {
  v1::LengthReport report;
  report.set_step(4);
  report.set_rank(rank);
  for (int64_t i = rank; i < 3; i += 2) {
    report.add_sample_ids(12 + i);
    report.add_lengths(24 + 2 * i);
    report.add_trained_tokens(24 + 2 * i);
  }
  return report;
}

TEST(StepLengthsTest, SharesOfAllRanksMakeTheStepInOrder) {
  StepLengths lengths(kShape, 4);
  ASSERT_TRUE(lengths.Add(Report(1)).ok());
  EXPECT_FALSE(lengths.complete());
  EXPECT_THAT(lengths.MissingRanks(), ElementsAre(0));
  ASSERT_TRUE(lengths.Add(Report(0)).ok());
  ASSERT_TRUE(lengths.complete());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lengths.samples()[i].id, 12 + i);
    EXPECT_EQ(lengths.samples()[i].length, 24 + 2 * i);
  }
}

TEST(StepLengthsTest, ARankWithoutSamplesReportsAnEmptyShare) {
  StepLengths lengths({.world = 2, .batch_samples = 1, .max_length = 9}, 0);
  v1::LengthReport empty;
  empty.set_rank(1);
  EXPECT_TRUE(lengths.Add(empty).ok());
  EXPECT_THAT(lengths.MissingRanks(), ElementsAre(0));
}

TEST(StepLengthsTest, WhatIsNotTheRanksShareIsRefusedWithNumbers) {
  const auto refusal = [](auto spoil) {
    StepLengths lengths(kShape, 4);
    v1::LengthReport report = Report(0);
    spoil(report);
    const absl::Status status = lengths.Add(report);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(lengths.MissingRanks().size(), 2u) << "nothing may be kept";
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](auto& r) { r.set_rank(2); }), HasSubstr("2 ranks"));
  EXPECT_THAT(refusal([](auto& r) { r.set_rank(-1); }), HasSubstr("2 ranks"));
  EXPECT_THAT(refusal([](auto& r) { r.set_sample_ids(1, 13); }),
              HasSubstr("sample 13 stands where sample 14 belongs"));
  EXPECT_THAT(refusal([](auto& r) { r.set_lengths(0, 0); }),
              HasSubstr("sample 12 has length 0"));
  EXPECT_THAT(refusal([](auto& r) { r.set_lengths(0, 101); }),
              HasSubstr("length 101; lengths are 1 to max_length = 100"));
  EXPECT_THAT(refusal([](auto& r) { r.set_trained_tokens(0, 25); }),
              HasSubstr("25 trained tokens of 24"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_lengths()->RemoveLast(); }),
              HasSubstr("2 ids, 1 lengths"));
  EXPECT_THAT(refusal([](auto& r) {
                r.add_sample_ids(16);
                r.add_lengths(1);
                r.add_trained_tokens(1);
              }),
              HasSubstr("its share of 3 samples is 2"));
}

TEST(StepLengthsTest, RepeatingAReportIsFineChangingItIsNot) {
  StepLengths lengths(kShape, 4);
  ASSERT_TRUE(lengths.Add(Report(0)).ok());
  EXPECT_TRUE(lengths.Add(Report(0)).ok());
  EXPECT_FALSE(lengths.complete());
  v1::LengthReport other = Report(0);
  other.set_lengths(0, 23);
  other.set_trained_tokens(0, 23);
  EXPECT_THAT(lengths.Add(other).message(), HasSubstr("differs"));
}

TEST(StepLengthsTest, ShapesOfVideoReachThePlanner) {
  StepShape video = kShape;
  video.is_video = true;
  StepLengths lengths(video, 4);
  v1::LengthReport report = Report(1);  // one sample of 26 tokens
  EXPECT_THAT(std::string(lengths.Add(report).message()),
              HasSubstr("0 shapes for 1 samples of a video model"));
  v1::ClipShape* const shape = report.add_shapes();
  shape->set_frames(13);
  shape->set_height(2);
  EXPECT_THAT(std::string(lengths.Add(report).message()),
              HasSubstr("13 frames of 2 x 0 patches are not 26 tokens"));
  shape->set_width(1);
  ASSERT_TRUE(lengths.Add(report).ok());
  EXPECT_EQ(lengths.samples()[1].frames, 13);
  EXPECT_EQ(lengths.samples()[1].patches(), 2);
  ASSERT_TRUE(lengths.Add(report).ok());
  shape->set_height(1);
  shape->set_width(2);
  EXPECT_THAT(std::string(lengths.Add(report).message()), HasSubstr("differs"));
  StepLengths text(kShape, 4);
  EXPECT_FALSE(text.Add(report).ok());
}

// Blocks that are mapped on their own included.
size_t HeapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(StepLengthsTest, ALargeStepTakesNoMemoryBeforeItsReports) {
  std::vector<StepLengths> steps;
  const StepShape shape{
      .world = 1 << 14, .batch_samples = 1 << 20, .max_length = 9};
  const size_t before = HeapBytes();
  for (int64_t step = 0; step < 20; ++step) steps.emplace_back(shape, step);
  v1::LengthReport report;
  report.set_rank(0);
  for (int64_t i = 0; i < (1 << 20); i += 1 << 14) {
    report.add_sample_ids(i);
    report.add_lengths(1);
    report.add_trained_tokens(1);
  }
  EXPECT_TRUE(steps[0].Add(report).ok());
  EXPECT_EQ(steps[0].num_reported(), 1);
  EXPECT_LT(HeapBytes(), before + (size_t{1} << 20));
}

}  // namespace
}  // namespace evenstep::coordinator
