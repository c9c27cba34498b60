#include "client/cli/profile_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace evenstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

jobspec::Profile Example() {
  jobspec::Profile profile;
  profile.key = {"layers=2", "cpu X, threads 1", "evenstep 1", "float32"};
  profile.held_out_error = 0.042;
  profile.points = {{.layers = 2,
                     .degree = 2,
                     .lengths = {512, 16},
                     .held_out = true,
                     .compute_ns = 3e6,
                     .collective_ns = 1e6,
                     .predicted_ns = 5e6,
                     .activation_bytes = 2'000'000,
                     .predicted_bytes = 2'100'000}};
  return profile;
}

TEST(ProfileReportTest, ShowsEveryPointWithItsError) {
  const std::string text = FormatProfileReport(Example(), ColourMode::kPlain);
  EXPECT_THAT(text, ContainsRegex("held out +2 +0 +2 +512.16 +4.00 +5.00 "
                                  "+.25.0%"));
  EXPECT_THAT(
      text, AllOf(HasSubstr("4.2% of held-out"), HasSubstr("cpu X, threads 1"),
                  HasSubstr("2.00 (+5.0%)"),
                  HasSubstr("+5.0% predicted of the 2.00 MB")));
}

TEST(ProfileReportTest, BytesThatAreNotPredictedHaveNoError) {
  jobspec::Profile profile = Example();
  profile.points[0].predicted_bytes = 0;  // a model by a name
  const std::string text = FormatProfileReport(profile, ColourMode::kPlain);
  EXPECT_THAT(text, ContainsRegex("[+]25.0% +2.00\n"));
  EXPECT_THAT(text, Not(HasSubstr("Memory:")));
}

TEST(ProfileReportTest, ClipsHaveTheirShapesAndBothKindsOfRecompute) {
  jobspec::Profile profile = Example();
  profile.points[0].lengths = {128, 1};
  profile.points[0].shapes = {{8, 4, 4}, {1, 1, 1}};
  profile.points[0].recompute_temporal_layers = 1;
  EXPECT_THAT(FormatProfileReport(profile, ColourMode::kPlain),
              ContainsRegex("held out +2 +0.1 +2 +8x4x4.1x1x1 +4.00"));
}

TEST(ProfileCommandTest, NeedsAJobOrAPreset) {
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  EXPECT_EQ(Profile(environment, GlobalOptions(), ProfileCommand()),
            kExitUsage);
  EXPECT_THAT(err.str(), HasSubstr("name a job file or a --preset"));
}

TEST(ProfileCommandTest, AMissingTrainerIsSaid) {
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  environment.bin_dir = "/nowhere";
  ProfileCommand command;
  command.preset = "tiny";
  EXPECT_NE(Profile(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("/nowhere/evenstep-trainer"));
}

TEST(ProfileCommandTest, AnotherTrainerMeasures) {
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  environment.bin_dir = "/nowhere";
  ProfileCommand command;
  command.preset = "tiny";
  command.trainer = "/elsewhere/evenstep-trainer-cuda";
  EXPECT_NE(Profile(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("/elsewhere/evenstep-trainer-cuda"));
}

}  // namespace
}  // namespace evenstep::cli
