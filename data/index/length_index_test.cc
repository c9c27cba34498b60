#include "data/index/length_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

IndexContent Content() {
  IndexContent content;
  content.header.listing_key = 11;
  content.header.content_key = 12;
  content.header.num_bad = 2;
  content.files = {{0, 5, 100, 7}, {5, 7, 50, 8}};
  content.names = "a.txtb.jsonl";
  content.documents = {{0, 0, 0, 100, 101, 101, 100},
                       {1, 1, 0, 20, 10, 10, 3},
                       {1, 2, 21, 29, 19, 12, 0}};
  content.notes = "x: empty\ny: not JSON\n";
  return content;
}

TEST(LengthIndexTest, RowsCountsAndNamesReadBack) {
  const auto index = LengthIndex::FromBytes(SerializeIndex(Content()));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->header().listing_key, 11u);
  EXPECT_EQ(index->summary().num_samples, 3);
  EXPECT_EQ(index->summary().num_bad, 2);
  EXPECT_EQ(index->summary().longest, 101);
  EXPECT_EQ(index->summary().total_tokens, 123);
  EXPECT_EQ(index->summary().content_key, 12u);
  EXPECT_EQ(index->document(2).offset, 21);
  EXPECT_EQ(index->file_name(0), "a.txt");
  EXPECT_EQ(index->file_name(1), "b.jsonl");
  EXPECT_EQ(index->notes(), "x: empty\ny: not JSON\n");
}

TEST(LengthIndexTest, MappedFileIsTheSameIndex) {
  TempFolder folder;
  const std::string path = folder.path() + "/index";
  ASSERT_TRUE(WriteFileAtomically(path, SerializeIndex(Content())).ok());
  auto index = LengthIndex::Map(path);
  ASSERT_TRUE(index.ok()) << index.status();
  const LengthIndex moved = *std::move(index);
  EXPECT_EQ(moved.file_name(1), "b.jsonl");
  EXPECT_EQ(LengthIndex::Map(folder.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(LengthIndex::Map(folder.path()).ok());
}

TEST(LengthIndexTest, EveryTruncationIsRefused) {
  const std::string bytes = SerializeIndex(Content());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(LengthIndex::FromBytes(bytes.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
  EXPECT_FALSE(LengthIndex::FromBytes(bytes + "x").ok());
}

TEST(LengthIndexTest, EveryFlippedBitIsRefused) {
  const std::string bytes = SerializeIndex(Content());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] ^= static_cast<char>(1 << bit);
      EXPECT_FALSE(LengthIndex::FromBytes(damaged).ok()) << i << ":" << bit;
    }
  }
}

TEST(LengthIndexTest, OtherVersionIsRefusedByName) {
  std::string bytes = SerializeIndex(Content());
  bytes[7] = '3';
  EXPECT_THAT(LengthIndex::FromBytes(bytes).status().ToString(),
              HasSubstr("another version"));
}

// A right checksum over wrong rows: a fault of the writer must not become a
// read outside the map.
TEST(LengthIndexTest, RowsOutOfRangeAreRefusedThoughTheChecksumFits) {
  const std::function<void(IndexContent&)> changes[] = {
      [](IndexContent& c) { c.documents[0].file = 2; },
      [](IndexContent& c) { c.documents[0].file = -1; },
      [](IndexContent& c) { c.documents[1].offset = -1; },
      [](IndexContent& c) { c.documents[1].offset = 31; },
      [](IndexContent& c) { c.documents[1].bytes = 51; },
      [](IndexContent& c) { c.documents[1].bytes = 0; },
      [](IndexContent& c) { c.documents[1].bytes = INT64_MAX; },
      [](IndexContent& c) { c.documents[0].length = 102; },
      [](IndexContent& c) { c.documents[0].length = 0; },
      [](IndexContent& c) { c.documents[0].num_trained = 102; },
      [](IndexContent& c) { c.documents[0].num_trained = -1; },
      [](IndexContent& c) { c.files[1].name_bytes = 8; },
      [](IndexContent& c) { c.files[1].name_offset = 13; },
      [](IndexContent& c) { c.files[1].name_offset = -1; },
  };
  for (const auto& change : changes) {
    IndexContent content = Content();
    change(content);
    EXPECT_FALSE(LengthIndex::FromBytes(SerializeIndex(content)).ok());
  }
}

TEST(LengthIndexTest, RandomBytesNeverCrash) {
  std::mt19937 random(2);
  const std::string sound = SerializeIndex(Content());
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = sound;
    for (int i = 1 + random() % 8; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    LengthIndex::FromBytes(std::move(bytes)).status().IgnoreError();
  }
}

}  // namespace
}  // namespace evenstep::data
