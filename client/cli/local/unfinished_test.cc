#include "client/cli/local/unfinished.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/testing/temp_folder.h"
#include "data/safetensors.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

class UnfinishedTest : public ::testing::Test {
 protected:
  void Leave(const std::string& name, int steps) {
    const fs::path path = fs::path(out_.path()) / name;
    fs::create_directories(path.parent_path());
    const std::string bytes(8, '\1');
    ASSERT_TRUE(
        data::WriteSafetensors(path, {{"w", "F64", {1}, bytes}},
                               {{"evenstep.steps", absl::StrCat(steps)}})
            .ok());
  }
  std::string Said() const {
    return DescribeUnfinished(FindUnfinished(out_.path()));
  }

  const TempFolder out_;
};

TEST_F(UnfinishedTest, WeightsOfTheMostStepsAreTaken) {
  Leave("model.rank-1.safetensors", 3);
  Leave("model.safetensors", 3);
  Leave("model.safetensors.tmp.Ab12Cd", 5);
  client::Job job;
  FindWeights(out_.path(), &job);
  EXPECT_EQ(job.weights_path, out_.path() + "/model.safetensors");
  EXPECT_EQ(job.weights_steps, 3);
  Leave("model.rank-1.safetensors", 4);
  FindWeights(out_.path(), &job);
  EXPECT_EQ(job.weights_path, out_.path() + "/model.rank-1.safetensors");
  EXPECT_EQ(job.weights_steps, 4);
}

TEST_F(UnfinishedTest, EveryRunThatWasKilledIsNamedWithItsCommand) {
  EXPECT_EQ(Said(), "");
  const std::string unfinished = out_.path() + "/unfinished/";
  Leave("unfinished/a/model.safetensors", 12);
  Leave("unfinished/a/model.rank-1.safetensors", 11);
  Leave("unfinished/it's b/model.rank-1.safetensors", 1);
  fs::create_directories(unfinished + "c");
  EXPECT_EQ(Said(),
            absl::StrCat("A run that did not end left weights after 12 steps; "
                         "to use them: evenstep generate ",
                         unfinished, "a/model.safetensors\n",
                         "A run that did not end left weights after 1 step; "
                         "to use them: evenstep generate '",
                         unfinished, "it'\\''s b/model.rank-1.safetensors'"));
}

TEST_F(UnfinishedTest, AFolderWithoutWeightsSaysWhyAndNamesEarlierOnes) {
  EXPECT_EQ(DescribeNoWeights(out_.path()), "");
  std::ofstream(out_.path() + "/summary.json")
      << R"({"weights_note": "the disk is full"})";
  Leave("previous-1/model.safetensors", 4);
  Leave("previous-2/model.safetensors", 4);
  fs::create_directories(out_.path() + "/previous-3");
  EXPECT_EQ(DescribeNoWeights(out_.path()),
            absl::StrCat("The last run left no weights: the disk is full\n"
                         "An earlier run left weights; to use them: evenstep "
                         "generate ",
                         out_.path(), "/previous-2"));
}

TEST_F(UnfinishedTest, AnAttemptThatHadDoneMoreStepsIsNamed) {
  Leave("model.safetensors", 3);
  EXPECT_EQ(Said(), "");
  Leave("model.after-100-steps.safetensors", 100);
  EXPECT_NE(Said().find("after 100 steps"), std::string::npos) << Said();
}

}  // namespace
}  // namespace evenstep::cli
