#include "data/index/index_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/temp_folder.h"
#include "data/index/index_lock.h"

namespace evenstep::data {
namespace {

const ListedFile kFile = {"a", 3, 0, ""};

class IndexCacheTest : public ::testing::Test {
 protected:
  IndexCacheTest() {
    list_.root = folder_.path();
    list_.files.push_back(kFile);
    options_.source = "text:" + folder_.path();
    options_.max_length = 10;
    options_.cache_dir = cache_.path();
  }

  absl::StatusOr<Selection> Open(
      const std::function<absl::Status(IndexBuilder&)>& scan) const {
    return OpenSelection(
        list_, options_, 0, scan,
        {.name = [](const LengthIndex&, int64_t) { return "a"; },
         .judge = JudgeTokens(options_, 0)});
  }
  static absl::Status AddOne(IndexBuilder& builder) {
    builder.AddFile(kFile);
    IndexedDocument row;
    row.bytes = 3;
    row.num_tokens = 4;
    row.num_trained = 3;
    builder.AddDocument("a", row);
    return absl::OkStatus();
  }

  TempFolder folder_;
  TempFolder cache_;
  FileList list_;
  DatasetOptions options_;
};

TEST_F(IndexCacheTest, NothingIsWrittenIntoSystemFolders) {
  for (const char* folder : {"/usr/include", "/etc", "/", "/var/lib"}) {
    EXPECT_FALSE(MayKeepIndexIn(folder)) << folder;
  }
  EXPECT_FALSE(MayKeepIndexIn("/no/such/folder"));
  EXPECT_TRUE(MayKeepIndexIn(folder_.path()));
  // By where it really is.
  const std::string link = folder_.path() + "/headers";
  std::filesystem::create_symlink("/usr/include", link);
  EXPECT_FALSE(MayKeepIndexIn(link));
}

TEST_F(IndexCacheTest, NothingIsWrittenIntoFoldersOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  ASSERT_EQ(chown(folder_.path().c_str(), 65534, 65534), 0);
  EXPECT_FALSE(MayKeepIndexIn(folder_.path()));
}

// Ranks of a node start at once: one reads the data, the others wait.
TEST_F(IndexCacheTest, OneOfManyIndexes) {
  std::atomic<int> scans = 0;
  std::atomic<int> waiting = 0;
  options_.progress = [&](const IndexProgress& progress) {
    if (progress.waiting) ++waiting;
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto opened = Open([&](IndexBuilder& builder) {
        ++scans;
        while (waiting < 3) std::this_thread::yield();
        return AddOne(builder);
      });
      EXPECT_TRUE(opened.ok()) << opened.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scans, 1);
}

TEST_F(IndexCacheTest, WaitingEndsWhenItIsStopped) {
  ASSERT_TRUE(Open(AddOne).ok());
  const std::string index =
      std::filesystem::directory_iterator(cache_.path())->path();
  std::filesystem::remove(index);
  const auto held = IndexLock::Try(index + ".lock");
  ASSERT_TRUE(held.has_value());
  options_.progress = [](const IndexProgress& progress) {
    EXPECT_TRUE(progress.waiting);
    return absl::CancelledError("enough");
  };
  EXPECT_EQ(Open(AddOne).status(), absl::CancelledError("enough"));
}

TEST_F(IndexCacheTest, AFailedScanLeavesNothingBehind) {
  const auto opened =
      Open([](IndexBuilder&) { return absl::DataLossError("broken"); });
  EXPECT_EQ(opened.status(), absl::DataLossError("broken"));
  EXPECT_TRUE(std::filesystem::is_empty(cache_.path()));
}

// The data was read; what a job makes of it is another matter.
TEST_F(IndexCacheTest, AnIndexIsKeptThoughTheJobsRulesRefuseIt) {
  options_.max_length = 2;
  EXPECT_EQ(Open(AddOne).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options_.max_length = 4;
  EXPECT_TRUE(
      Open([](IndexBuilder&) { return absl::InternalError("again"); }).ok());
}

}  // namespace
}  // namespace evenstep::data
