#include "data/index/content_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fnv1a.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

constexpr int64_t kBlock = kContentBlockBytes;
constexpr ContentBudget kSmall = {.whole_blocks = 8, .most_blocks = 4};

class ContentSamplerTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  // Without writing a byte.
  void MakeHollow(const std::string& name, int64_t bytes) const {
    std::ofstream(Path(name), std::ios::binary).put('x');
    std::filesystem::resize_file(Path(name), bytes);
  }
  void Change(const std::string& name, int64_t offset) const {
    std::fstream file(Path(name),
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset);
    file.put('!');
  }

  struct Sampled {
    uint64_t key = 0;
    int64_t bytes = 0;
  };
  Sampled Sample(const std::vector<std::string>& names,
                 const ContentBudget& budget) const {
    std::vector<int64_t> sizes;
    for (const std::string& name : names) {
      sizes.push_back(
          static_cast<int64_t>(std::filesystem::file_size(Path(name))));
    }
    ContentSampler sampler(sizes, budget);
    Fnv1a64 hash;
    Sampled sampled;
    for (size_t i = 0; i < names.size(); ++i) {
      const absl::Status status = sampler.AddFile(
          Path(names[i]), sizes[i], [&](absl::string_view block) {
            hash.AddString(block);
            sampled.bytes += static_cast<int64_t>(block.size());
          });
      EXPECT_TRUE(status.ok()) << status;
    }
    sampled.key = hash.value();
    return sampled;
  }

  TempFolder folder_;
};

TEST_F(ContentSamplerTest, OfASmallDataSetEveryByteCounts) {
  MakeHollow("a", 3 * kBlock + 17);
  MakeHollow("b", 5);
  const Sampled before = Sample({"a", "b"}, kSmall);
  EXPECT_EQ(before.bytes, 3 * kBlock + 17 + 5);
  for (const int64_t offset : {int64_t{1}, kBlock + 9, 3 * kBlock + 16}) {
    Change("a", offset);
    const Sampled after = Sample({"a", "b"}, kSmall);
    EXPECT_NE(after.key, before.key) << offset;
  }
}

// 40 blocks, of which every tenth is read.
TEST_F(ContentSamplerTest, OfALargeDataSetEveryRunOfTheStrideIsSeen) {
  MakeHollow("a", 40 * kBlock);
  const Sampled before = Sample({"a"}, kSmall);
  EXPECT_EQ(before.bytes, 5 * kBlock);  // four, and the last one
  Change("a", 15 * kBlock);
  EXPECT_EQ(Sample({"a"}, kSmall).key, before.key) << "between two blocks";
  Change("a", 20 * kBlock + 7);
  EXPECT_NE(Sample({"a"}, kSmall).key, before.key);
  MakeHollow("b", 40 * kBlock);
  for (int64_t block = 21; block < 31; ++block) Change("b", block * kBlock);
  EXPECT_NE(Sample({"b"}, kSmall).key, before.key);
}

TEST_F(ContentSamplerTest, BothEndsOfALargeFileAreRead) {
  MakeHollow("small", 3);
  MakeHollow("large", 40 * kBlock + 1);
  const auto key = [&] { return Sample({"small", "large"}, kSmall).key; };
  uint64_t before = key();
  for (const int64_t offset : {int64_t{0}, 40 * kBlock}) {
    Change("large", offset);
    EXPECT_NE(key(), before) << offset;
    before = key();
  }
}

// 64 GiB, and a million files.
TEST_F(ContentSamplerTest, WhatIsReadIsBounded) {
  MakeHollow("large", int64_t{1} << 36);
  const ContentBudget budget = {.whole_blocks = 100, .most_blocks = 50};
  EXPECT_LE(Sample({"large"}, budget).bytes, 52 * kBlock);
  ContentSampler many(std::vector<int64_t>(1'000'000, 10), budget);
  EXPECT_EQ(many.stride(), 20'000);
  const ContentSampler none({});
  EXPECT_EQ(none.stride(), 1);
}

TEST_F(ContentSamplerTest, WhatVanishedOrShrankIsSaid) {
  MakeHollow("a", 10);
  const auto add = [](absl::string_view) {};
  ContentSampler sampler({20, 10});
  EXPECT_EQ(sampler.AddFile(Path("a"), 20, add).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(sampler.AddFile(Path("none"), 10, add).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace evenstep::data
