#include "client/cli/local/result_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

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

TEST_F(ResultFolderTest, FilesOfTwoRunsAreNotMixed) {
  const std::string out = parent_ + "/out";
  const auto write = [](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  };
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  client::Job job;
  job.weights_path = parent_ + "/first/model.safetensors";
  write(job.weights_path, "text");
  write(parent_ + "/first/config.json", "{}");
  ASSERT_TRUE(LeaveResults(out, job, {}).ok());
  EXPECT_EQ(read(out + "/config.json"), "{}");
  job.weights_path = parent_ + "/second/model.safetensors";
  write(job.weights_path, "video");  // has no config.json
  ASSERT_TRUE(LeaveResults(out, job, {}).ok());
  EXPECT_EQ(read(out + "/model.safetensors"), "video");
  EXPECT_FALSE(fs::exists(out + "/config.json"));
  EXPECT_EQ(read(out + "/model.safetensors.previous"), "text");
  EXPECT_EQ(read(out + "/config.json.previous"), "{}");
  job.weights_path.clear();  // failed
  ASSERT_TRUE(LeaveResults(out, job, {}).ok());
  EXPECT_FALSE(fs::exists(out + "/model.safetensors"));
  EXPECT_EQ(read(out + "/model.safetensors.previous"), "video");
}

}  // namespace
}  // namespace evenstep::cli
