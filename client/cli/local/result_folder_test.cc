#include "client/cli/local/result_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "data/text/file_list.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

class ResultFolderTest : public ::testing::Test {
 protected:
  ResultFolderTest() {
    std::string name = ::testing::TempDir() + "/result_folder-XXXXXX";
    parent_ = mkdtemp(name.data());
  }
  ~ResultFolderTest() override { fs::remove_all(parent_); }

  // What a run that was killed leaves: its lock is free.
  std::string LeaveBehind(const std::string& name) {
    const std::string path = parent_ + "/" + name;
    fs::create_directories(path + "/node-0");
    std::ofstream(path + "/owner") << "";
    return path;
  }

  std::string parent_;
};

TEST_F(ResultFolderTest, WhatAKilledRunLeftIsRemovedByTheNext) {
  const std::string stale = LeaveBehind("evenstep-local-aaaaaa");
  const std::string foreign = LeaveBehind("another-aaaaaa");
  fs::create_directories(parent_ + "/evenstep-local-bbbbbb");  // not locked yet
  const auto made = PrivateFolder::Make(parent_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(parent_ + "/evenstep-local-bbbbbb"));
}

TEST_F(ResultFolderTest, AFolderOfARunThatLivesOrWasKeptStays) {
  std::optional<PrivateFolder> kept(*PrivateFolder::Make(parent_));
  const auto living = PrivateFolder::Make(parent_);
  const std::string kept_path = kept->path();
  kept->Keep();
  kept.reset();
  const auto next = PrivateFolder::Make(parent_);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(fs::exists(living->path()));
  EXPECT_TRUE(fs::exists(kept_path));
}

TEST_F(ResultFolderTest, AFolderGoesWithItsOwner) {
  std::string path;
  {
    const auto made = PrivateFolder::Make(parent_);
    ASSERT_TRUE(made.ok()) << made.status();
    path = made->path();
    EXPECT_TRUE(fs::is_directory(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ResultFolderTest, LogsOfTrainersAreKeptInTheOrderOfAttempts) {
  const auto write = [&](const std::string& name, const std::string& text) {
    const fs::path path = fs::path(parent_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  write("node-0/attempts/job.10/rank-1.log", "third\n");
  write("node-1/attempts/job.2/rank-1.log", "first\n");
  write("node-0/attempts/job.3/rank-1.log", "");
  write("node-0/attempts/job.3/rank-0.log", "of rank 0\n");
  write("node-0/attempts/job.3/trainers", "not a log\n");
  write("node-0/attempts/note.txt/rank-0.log", "of no attempt\n");
  const std::string logs = parent_ + "/logs";
  write("logs/rank-1.log", "of an earlier run\n");
  write("logs/node-2/job.1/rank-2.log", "linked\n");
  fs::create_directories(parent_ + "/node-2");
  fs::create_directory_symlink(logs + "/node-2", parent_ + "/node-2/attempts");
  ASSERT_TRUE(KeepTrainerLogs(parent_, logs).ok());
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(read(logs + "/rank-0.log"), "of rank 0\n");
  EXPECT_EQ(read(logs + "/rank-1.log"), "of an earlier run\nfirst\nthird\n");
  EXPECT_EQ(read(logs + "/rank-2.log"), "linked\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(logs), {}), 3);
  ASSERT_TRUE(KeepTrainerLogs(parent_, parent_ + "/no/folder").ok());
  EXPECT_EQ(read(parent_ + "/no/folder/rank-0.log"), "of rank 0\n");
}

TEST_F(ResultFolderTest, NoFileOfTheUserIsReplaced) {
  for (const char* name : {"model.safetensors", "job.yaml", "logs"}) {
    const std::string folder = absl::StrCat(parent_, "/of-", name);
    fs::create_directories(folder);
    std::ofstream(absl::StrCat(folder, "/", name)) << "precious";
    const absl::Status status = MakeResultFolder(folder);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(absl::StrCat("holds ", name, ", which")),
              absl::string_view::npos)
        << status;
    EXPECT_FALSE(fs::exists(absl::StrCat(folder, "/.evenstep-output")));
  }
  const std::string unmarked = parent_ + "/unmarked";
  fs::create_directories(unmarked);
  for (const char* name :
       {"loss.csv", "loss.json", "summary.json", "job.yaml"}) {
    std::ofstream(absl::StrCat(unmarked, "/", name)) << "of an older version";
  }
  EXPECT_TRUE(MakeResultFolder(unmarked).ok());
  EXPECT_TRUE(MakeResultFolder(unmarked).ok()) << "marked now";
}

TEST_F(ResultFolderTest, NoFileOfARunIsDataOfTheNext) {
  const std::string out = parent_ + "/notes";
  fs::create_directories(out);
  std::ofstream(out + "/note.txt") << "a note";
  ASSERT_TRUE(MakeResultFolder(out).ok());
  for (int run = 0; run < 2; ++run) {
    client::Job job;
    job.weights_path = parent_ + "/run/model.safetensors";
    fs::create_directories(parent_ + "/run");
    std::ofstream(job.weights_path) << "weights";
    std::ofstream(parent_ + "/run/config.json") << "{}";
    fs::create_directories(out + "/logs");
    std::ofstream(out + "/logs/coordinator.log") << "a line";
    ASSERT_TRUE(LeaveResults(out, {}, &job).ok());
    const auto list = data::ListFiles(out);
    ASSERT_TRUE(list.ok()) << list.status();
    ASSERT_EQ(list->files.size(), 1u) << list->files[0].name;
    EXPECT_EQ(list->files[0].name, "note.txt");
    EXPECT_EQ(list->left_out.own, run == 0 ? 7 : 8);
  }
  EXPECT_TRUE(fs::exists(out + "/previous-1/logs/coordinator.log"));
  const auto made = PrivateFolder::Make(parent_);
  std::ofstream(made->path() + "/log") << "a line";
  EXPECT_EQ(data::ListFiles(parent_)->files.size(), 1u);
}

class TwoRunsTest : public ResultFolderTest {
 protected:
  // A run that leaves `weights`, with a configuration or without, and logs.
  LeftResults Run(const std::string& weights, const std::string& config) {
    client::Job job;
    job.job_yaml = absl::StrCat("name: ", weights, "\n");
    job.weights_path = parent_ + "/run/model.safetensors";
    Write(job.weights_path, weights);
    if (!config.empty()) Write(parent_ + "/run/config.json", config);
    Write(parent_ + "/run/logs/rank-0.log", "log of " + weights);
    absl::StatusOr<LeftResults> left = LeaveResults(out_, {}, &job);
    EXPECT_TRUE(left.ok()) << left.status();
    EXPECT_EQ(KeepLogs(parent_ + "/run/logs", out_), out_ + "/logs");
    return *std::move(left);
  }
  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(out_ + "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const std::string out_ = parent_ + "/out";
};

TEST_F(ResultFolderTest, WeightsThatWereSavedElsewhereAreBrought) {
  const std::string elsewhere = parent_ + "/evenstep-weights-job-x";
  fs::create_directories(elsewhere);
  client::Job job;
  job.weights_path = elsewhere + "/model.safetensors";
  job.weights_note = "the job's folder does not take them";
  std::ofstream(job.weights_path) << "weights";
  std::ofstream(elsewhere + "/.evenstep-output") << "*\n";
  const std::string out = parent_ + "/out";
  const auto left = LeaveResults(out, {}, &job);
  ASSERT_TRUE(left.ok() && left->weights.ok()) << left.status();
  EXPECT_EQ(job.weights_path, out + "/model.safetensors");
  EXPECT_EQ(left->summary["files"]["weights"], job.weights_path);
  EXPECT_EQ(left->summary["weights_note"], "");
  EXPECT_FALSE(fs::exists(elsewhere));
}

TEST_F(ResultFolderTest, WeightsThatCannotBeBroughtAreNamed) {
  client::Job job;
  job.weights_path = parent_ + "/gone/model.safetensors";
  const auto left = LeaveResults(parent_ + "/out", {}, &job);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(absl::IsNotFound(left->weights)) << left->weights;
  EXPECT_EQ(left->summary["files"]["weights"],
            parent_ + "/gone/model.safetensors");
  EXPECT_TRUE(fs::exists(parent_ + "/out/loss.csv"));
}

TEST_F(TwoRunsTest, FilesOfTwoRunsAreNotMixed) {
  EXPECT_EQ(Run("text", "{}").previous, "");
  EXPECT_EQ(Read("config.json"), "{}");
  EXPECT_EQ(Run("video", "").previous, out_ + "/previous-1");
  EXPECT_EQ(Read("model.safetensors"), "video");
  EXPECT_FALSE(fs::exists(out_ + "/config.json"));
  EXPECT_EQ(Read("logs/rank-0.log"), "log of video");
}

TEST_F(TwoRunsTest, EveryEarlierRunIsKeptAsAWhole) {
  Run("first", "{}");
  Run("second", "");
  EXPECT_EQ(Run("third", "").previous, out_ + "/previous-2");
  EXPECT_EQ(Read("previous-1/model.safetensors"), "first");
  EXPECT_EQ(Read("previous-1/config.json"), "{}");
  EXPECT_EQ(Read("previous-1/job.yaml"), "name: first\n");
  EXPECT_EQ(Read("previous-1/logs/rank-0.log"), "log of first");
  for (const char* name : {"loss.csv", "loss.json", "summary.json"}) {
    EXPECT_NE(Read(absl::StrCat("previous-1/", name)), "") << name;
  }
  EXPECT_EQ(Read("previous-2/model.safetensors"), "second");
  EXPECT_EQ(Read("model.safetensors"), "third");
}

TEST_F(TwoRunsTest, AFolderOfTheUserIsNotTaken) {
  Run("first", "");
  Write(out_ + "/previous-1/of-the-user", "precious");
  EXPECT_EQ(Run("second", "").previous, out_ + "/previous-2");
  EXPECT_FALSE(fs::exists(out_ + "/previous-1/model.safetensors"));
}

TEST_F(TwoRunsTest, UnfinishedWeightsStayWhereTheyAre) {
  Run("first", "");
  Write(out_ + "/unfinished/job/model.safetensors", "of a killed run");
  Run("second", "");
  EXPECT_EQ(Read("unfinished/job/model.safetensors"), "of a killed run");
}

// A run that fails before it has results leaves those of the earlier one.
TEST_F(TwoRunsTest, LogsDoNotReplaceThoseOfAnEarlierRun) {
  Run("first", "");
  const std::string logs = out_ + "/unfinished/job/logs";
  Write(logs + "/rank-0.log", "of a failed run");
  EXPECT_EQ(KeepLogs(logs, out_), logs);
  EXPECT_EQ(Read("logs/rank-0.log"), "log of first");
}

}  // namespace
}  // namespace evenstep::cli
