#include "client/plan/length_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/testing/temp_folder.h"
#include "data/latents/moving_latents.h"

namespace evenstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> LengthsOf(const StepLengths& step) {
  std::vector<int64_t> lengths;
  for (const auto& sample : step.samples) lengths.push_back(sample.length);
  return lengths;
}

LengthSource FromInput(std::istream& input, int64_t num_samples = 0) {
  LengthSource source;
  source.lengths = "-";
  source.num_samples = num_samples;
  source.input = &input;
  return source;
}

LengthSource FromText(const std::string& lengths, uint64_t seed = 1) {
  LengthSource source;
  source.lengths = lengths;
  source.seed = seed;
  return source;
}

std::string ErrorOf(const LengthSource& source) {
  const auto step = ReadStepLengths(source);
  EXPECT_FALSE(step.ok());
  return std::string(step.status().message());
}

TEST(LengthSourceTest, StandardInputHasALengthALine) {
  std::istringstream input("128\n\n  2048 \r\n2x3x4\n");
  auto step = ReadStepLengths(FromInput(input));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(LengthsOf(*step), ElementsAre(128, 2048, 24));
  EXPECT_EQ(step->samples[2], (data::LengthDraw{24, 2, 3, 4}));
  EXPECT_EQ(step->origin, "standard input");
  EXPECT_TRUE(step->has_clips);
}

TEST(LengthSourceTest, ABadLineIsNamedWithItsNumber) {
  for (const char* bad :
       {"abc", "0", "-4", "12.5", "1x2", "0x1x1", "1x2x3x4", "268435457",
        "100000x100000x100000", "268435456x268435456x1", "1e400"}) {
    std::istringstream input(std::string("7\n") + bad + "\n");
    EXPECT_THAT(ErrorOf(FromInput(input)), HasSubstr("standard input, line 2"))
        << bad;
  }
  std::istringstream nothing(" \n");
  EXPECT_THAT(ErrorOf(FromInput(nothing)), HasSubstr("no lengths"));
}

TEST(LengthSourceTest, OnlyTheFirstOfAFileAreTakenIfAskedFor) {
  std::istringstream input("1\n2\n3\n");
  auto step = ReadStepLengths(FromInput(input, 2));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(LengthsOf(*step), ElementsAre(1, 2));
  EXPECT_EQ(step->note, "the first 2 of 3 lengths");
  std::istringstream again("1\n");
  EXPECT_THAT(ErrorOf(FromInput(again, 2)),
              HasSubstr("has 1 lengths; 2 were asked for"));
}

TEST(LengthSourceTest, ALawDrawsByItsSeed) {
  auto step = ReadStepLengths(FromText("wikipedia", 3));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->samples.size(), 512u);
  EXPECT_EQ(step->origin, "law wikipedia, seed 3");
  auto other = ReadStepLengths(FromText("wikipedia", 4));
  EXPECT_NE(LengthsOf(*step), LengthsOf(*other));
}

TEST(LengthSourceTest, ADataSetGivesTheFirstStepOfAJob) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("length_source." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a") << "four";
  std::ofstream(folder / "b") << std::string(99, 'b');
  LengthSource source;
  source.data = "text:" + folder.string();
  source.num_samples = 4;
  source.max_length = 50;
  auto step = ReadStepLengths(source);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(LengthsOf(*step), ElementsAre(5, 5, 5, 5));
  EXPECT_THAT(step->note, HasSubstr("1 document longer than 50"));
}

TEST(LengthSourceTest, LatentsKeepTheirFramesAndAreCutByThePatch) {
  const TempFolder folder;
  ASSERT_TRUE(data::WriteMovingLatents(folder.path(), {.clips = 8}).ok());
  LengthSource source;
  source.data = "latents:" + folder.path();
  source.num_samples = 8;
  const auto pixels = ReadStepLengths(source);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_TRUE(pixels->has_clips);
  source.patch = 2;
  const auto patches = ReadStepLengths(source);
  ASSERT_TRUE(patches.ok()) << patches.status();
  for (int i = 0; i < 8; ++i) {
    const data::LengthDraw& clip = patches->samples[i];
    EXPECT_EQ(clip.length, clip.frames * clip.height * clip.width);
    EXPECT_EQ(pixels->samples[i].frames, clip.frames);
    EXPECT_EQ(pixels->samples[i].length, 4 * clip.length);
  }
  source.data = "text:" + folder.path();
  EXPECT_THAT(ErrorOf(source), HasSubstr("a patch of 2 is of latents:"));
}

TEST(LengthSourceTest, OneSourceIsNeededAndNotTwo) {
  EXPECT_THAT(ErrorOf(LengthSource()), HasSubstr("file or law"));
  LengthSource both = FromText("short");
  both.data = "text:.";
  EXPECT_THAT(ErrorOf(both), HasSubstr("not both"));
  LengthSource negative = FromText("short");
  negative.num_samples = -1;
  EXPECT_THAT(ErrorOf(negative), HasSubstr("-1 samples"));
  EXPECT_THAT(ErrorOf(FromText("/no/such/file")), HasSubstr("/no/such"));
}

TEST(LengthSourceTest, CommentsAndAByteOrderMarkAreNoLengths) {
  const auto samples = ParseLengths(
      "\xEF\xBB\xBF# tokens of each document\r\n12\r\n\n 7 # short\n#9\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 2u);
  EXPECT_EQ((*samples)[0].length, 12);
  EXPECT_EQ((*samples)[1].length, 7);
  EXPECT_FALSE(ParseLengths("# nothing else\n").ok());
}

}  // namespace
}  // namespace evenstep::plan
