#include "worker/agent/work_folder.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

class WorkFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/evenstep-work-XXXXXX";
    root_ = mkdtemp(name);
    ASSERT_TRUE(MakeWorkFolder(root_ + "/one").ok());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_;
};

TEST_F(WorkFolderTest, AFolderKeepsItsIdUnderAnotherNameAndACopyHasItsOwn) {
  const auto id = FolderId(root_ + "/one");
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(*FolderId(root_ + "/one"), *id);
  std::filesystem::copy(root_ + "/one", root_ + "/two",
                        std::filesystem::copy_options::recursive);
  EXPECT_NE(*FolderId(root_ + "/two"), *id);
  std::filesystem::rename(root_ + "/one", root_ + "/renamed");
  EXPECT_EQ(*FolderId(root_ + "/renamed"), *id);
}

// A restart of the machine may give the disk another number.
TEST_F(WorkFolderTest, TheDisksDeviceNumberIsNoPartOfTheId) {
  struct stat found = {};
  ASSERT_EQ(stat((root_ + "/one").c_str(), &found), 0);
  const std::string id = *FolderId(root_ + "/one");
  EXPECT_TRUE(absl::StrContains(id, absl::StrCat("-", found.st_ino, "-")));
  EXPECT_FALSE(absl::StrContains(id, absl::StrCat("-", found.st_dev, "-")));
}

}  // namespace
}  // namespace evenstep::agent
