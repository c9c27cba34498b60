#include "worker/trainer/link/trainer_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A table with one flag, and the words of a command line.
int RunWith(std::vector<std::string> words, const absl::Status& outcome,
            int* num_calls) {
  int size = 1;
  ConfigTable table("evenstep-trainer profile", "Measures.");
  table.Add("size", "EVENSTEP_TEST_SIZE", &size, "how much");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return RunMode("profile", &table, static_cast<int>(argv.size()), argv.data(),
                 [&] {
                   *num_calls += size;
                   return outcome;
                 });
}

TEST(TrainerModeTest, TheFirstWordAsksForAMode) {
  std::string program = "evenstep-trainer";
  std::string word = "profile";
  char* argv[] = {program.data(), word.data()};
  EXPECT_TRUE(AsksForMode("profile", 2, argv));
  EXPECT_FALSE(AsksForMode("generate", 2, argv));
  EXPECT_FALSE(AsksForMode("profile", 1, argv));
}

TEST(TrainerModeTest, TheExitCodeSaysWhatBecameOfIt) {
  int num_calls = 0;
  EXPECT_EQ(RunWith({"profile", "--size", "2"}, absl::OkStatus(), &num_calls),
            kExitFinished);
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ(RunWith({"profile", "--colour", "2"}, absl::OkStatus(), &num_calls),
            kExitUsage);
  EXPECT_EQ(num_calls, 2) << "nothing is done after a usage error";
}

TEST(TrainerModeTest, AFailureIsLoggedByTheModesName) {
  int num_calls = 0;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunWith({"profile"}, absl::NotFoundError("no job"), &num_calls),
            kExitStartFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("profile_failed"), HasSubstr("no job")));
}

TEST(TrainerModeTest, AFailureIsLeftForWhoAsked) {
  const TempFolder folder;
  const std::string path = folder.path() + "/status";
  int num_calls = 0;
  EXPECT_EQ(
      RunWith({"profile", "--status-file", path},
              absl::InvalidArgumentError("height 15\nis odd"), &num_calls),
      kExitStartFailed);
  EXPECT_EQ(*ReadWholeFile(path, 100), "3\nheight 15\nis odd");
}

}  // namespace
}  // namespace evenstep::trainer
