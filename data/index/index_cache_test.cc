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

TEST_F(IndexCacheTest, ThoseWhoWaitSeeHowFarTheOtherIs) {
  constexpr int64_t kMib = int64_t{1} << 20;
  std::atomic<bool> indexes = false;
  std::atomic<bool> seen = false;
  std::atomic<int> num_looks = 0;
  options_.progress = [&](const IndexProgress& progress) {
    if (!progress.waiting) return absl::OkStatus();
    ++num_looks;
    EXPECT_GT(progress.bytes_total, 0);
    if (progress.bytes_done == kMib && progress.bytes_total == 4 * kMib &&
        progress.num_reports == 2) {
      seen = true;
    }
    return absl::OkStatus();
  };
  std::thread other([&] {
    const auto opened = Open([&](IndexBuilder& builder) {
      builder.SetTotalBytes(4 * kMib);
      builder.Advance(kMib);
      indexes = true;
      while (!seen && num_looks < 50) std::this_thread::yield();
      return AddOne(builder);
    });
    EXPECT_TRUE(opened.ok()) << opened.status();
  });
  while (!indexes) std::this_thread::yield();
  EXPECT_TRUE(
      Open([](IndexBuilder&) { return absl::InternalError("again"); }).ok());
  other.join();
  EXPECT_TRUE(seen);
}

TEST_F(IndexCacheTest, WhatAKilledHolderToldIsForgotten) {
  const std::string path = cache_.path() + "/lock";
  std::ofstream(path) << std::string(24, '\1');
  const auto held = IndexLock::Try(path);
  ASSERT_TRUE(held.has_value());
  IndexProgress told = {1, 2, true, 3};
  EXPECT_FALSE(IndexLock::Try(path, &told).has_value());
  EXPECT_EQ(told.bytes_total, 0);
  held->Tell({5, 6, false, 7});
  EXPECT_FALSE(IndexLock::Try(path, &told).has_value());
  EXPECT_EQ(told.bytes_done, 5);
  EXPECT_EQ(told.num_reports, 7);
  // No numbers that a message could not carry.
  held->Tell({7, 6, false, 8});
  EXPECT_FALSE(IndexLock::Try(path, &told).has_value());
  EXPECT_EQ(told.num_reports, 7);
}

class IndexNameTest : public IndexCacheTest {
 protected:
  IndexNameTest() {
    options_.cache_dir.clear();
    std::filesystem::create_directories(data());
    std::ofstream(data() + "/a") << "abc";
  }

  std::string data() const { return folder_.path() + "/data"; }
  // How many times the data was read to open it.
  int Open(const std::string& path, absl::string_view kind = "text:") {
    const auto listed = ListFiles(path);
    EXPECT_TRUE(listed.ok()) << listed.status();
    options_.source = absl::StrCat(kind, path);
    list_ = *listed;
    int num_scans = 0;
    const auto opened = IndexCacheTest::Open([&](IndexBuilder& builder) {
      ++num_scans;
      return AddOne(builder);
    });
    EXPECT_TRUE(opened.ok()) << opened.status();
    return num_scans;
  }
  static std::vector<std::string> IndexesIn(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name[0] == '.') names.push_back(name);
    }
    return names;
  }
};

TEST_F(IndexNameTest, AFolderHasOneIndexHoweverItsPathIsWritten) {
  std::filesystem::create_directory_symlink(data(), folder_.path() + "/link");
  const auto before = std::filesystem::current_path();
  EXPECT_EQ(Open(data()), 1);
  EXPECT_EQ(Open(data() + "/"), 0);
  EXPECT_EQ(Open(data() + "/../data/."), 0);
  EXPECT_EQ(Open(folder_.path() + "/link"), 0);
  std::filesystem::current_path(data());
  EXPECT_EQ(Open("."), 0);
  std::filesystem::current_path(before);
  EXPECT_EQ(IndexesIn(data()).size(), 1u);
  // The folder has another name elsewhere.
  std::filesystem::rename(data(), folder_.path() + "/moved");
  EXPECT_EQ(Open(folder_.path() + "/moved"), 0);
}

TEST_F(IndexNameTest, OtherSourcesOfAFolderHaveIndexesOfTheirOwn) {
  EXPECT_EQ(Open(data()), 1);
  EXPECT_EQ(Open(data() + "/a"), 1);
  EXPECT_EQ(Open(data() + "/*"), 1);
  EXPECT_EQ(Open(data(), "latents:"), 1);
  EXPECT_EQ(IndexesIn(data()).size(), 4u);
}

TEST_F(IndexNameTest, AFolderForAllIndexesKeepsThoseOfFoldersApart) {
  options_.cache_dir = cache_.path();
  std::filesystem::copy(data(), folder_.path() + "/copy");
  EXPECT_EQ(Open(data()), 1);
  EXPECT_EQ(Open(folder_.path() + "/copy"), 1);
  EXPECT_EQ(Open(data() + "/../data"), 0);
  EXPECT_EQ(IndexesIn(cache_.path()).size(), 2u);
}

TEST_F(IndexNameTest, DataThatChangedReplacesItsIndex) {
  EXPECT_EQ(Open(data()), 1);
  std::ofstream(data() + "/b") << "abcd";
  EXPECT_EQ(Open(data()), 1);
  EXPECT_EQ(IndexesIn(data()).size(), 1u);
}

TEST_F(IndexNameTest, IndexesOfEarlierVersionsAreRemovedAndNothingElse) {
  const std::string prefix = absl::StrCat(data(), "/", kIndexFilePrefix);
  std::ofstream(prefix + "0123456789abcdef.bin") << "EVNIDX03";
  std::ofstream(prefix + "1123456789abcdef.bin") << "EVNIDX99";
  std::ofstream(prefix + "2123456789abcdef.bin") << "mine";
  std::ofstream(data() + "/.other") << "EVNIDX03";
  EXPECT_EQ(Open(data()), 1);
  EXPECT_FALSE(std::filesystem::exists(prefix + "0123456789abcdef.bin"));
  EXPECT_TRUE(std::filesystem::exists(prefix + "1123456789abcdef.bin"));
  EXPECT_TRUE(std::filesystem::exists(prefix + "2123456789abcdef.bin"));
  EXPECT_TRUE(std::filesystem::exists(data() + "/.other"));
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
