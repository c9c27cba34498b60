#include "data/index/length_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A document of text as a whole file, a line without a mask, and one whose
// tokens 2, 3, 7, 8 and 9 are trained.
IndexContent Content() {
  IndexContent content;
  content.header.listing_key = 11;
  content.header.content_key = 12;
  content.header.num_bad = 2;
  content.header.variant = 8;
  content.header.num_json = 9;
  content.files = {{0, 5, 100, 7, 0}, {5, 7, 50, 8, 9}};
  content.names = "a.txtb.jsonl";
  content.documents.resize(3);
  content.documents[0] = {
      .bytes = 100, .num_tokens = 101, .num_trained = 100, .hash = 1};
  content.documents[1] = {.file = 1,
                          .largest_token = 300,
                          .largest_token_at = 7,
                          .number = 1,
                          .bytes = 20,
                          .num_tokens = 10,
                          .num_trained = 9,
                          .hash = 2};
  content.documents[2] = {.file = 1,
                          .number = 2,
                          .offset = 21,
                          .bytes = 29,
                          .num_tokens = 19,
                          .num_trained = 5,
                          .hash = 3,
                          .details_end = 4};
  content.details = {2, 4, 7, 10};
  content.notes = "x: empty\ny: not JSON\n";
  return content;
}

TEST(LengthIndexTest, RowsCountsAndNamesReadBack) {
  const auto index = LengthIndex::FromBytes(SerializeIndex(Content()));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->header().listing_key, 11u);
  EXPECT_EQ(index->header().content_key, 12u);
  EXPECT_EQ(index->header().num_bad, 2);
  EXPECT_EQ(index->header().variant, 8);
  EXPECT_EQ(index->header().num_json, 9);
  EXPECT_EQ(index->num_documents(), 3);
  EXPECT_EQ(index->document(1).largest_token, 300);
  EXPECT_EQ(index->document(2).offset, 21);
  EXPECT_EQ(index->document(2).hash, 3u);
  EXPECT_EQ(index->file_name(0), "a.txt");
  EXPECT_EQ(index->file_name(1), "b.jsonl");
  EXPECT_EQ(index->file(1).kind, 9);
  EXPECT_EQ(index->notes(), "x: empty\ny: not JSON\n");
  EXPECT_THAT(index->details(1), IsEmpty());
  EXPECT_THAT(index->details(2), ElementsAre(2, 4, 7, 10));
}

TEST(LengthIndexTest, TrainedTokensFollowTheMaskAtEveryLength) {
  const auto index = LengthIndex::FromBytes(SerializeIndex(Content()));
  ASSERT_TRUE(index.ok()) << index.status();
  for (int64_t length = 1; length <= 20; ++length) {
    int64_t trained = 0;
    for (const int64_t token : {2, 3, 7, 8, 9}) trained += token < length;
    EXPECT_EQ(index->TrainedTokens(2, length), trained) << length;
    EXPECT_EQ(index->TrainedTokens(1, length),
              std::min<int64_t>(length, 10) - 1);
  }
}

TEST(LengthIndexTest, AFileIsTheSameIndex) {
  TempFolder folder;
  const std::string path = folder.path() + "/index";
  ASSERT_TRUE(WriteFileAtomically(path, SerializeIndex(Content())).ok());
  auto index = LengthIndex::Read(path);
  ASSERT_TRUE(index.ok()) << index.status();
  const LengthIndex moved = *std::move(index);
  EXPECT_EQ(moved.file_name(1), "b.jsonl");
  EXPECT_EQ(LengthIndex::Read(folder.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(LengthIndex::Read(folder.path()).ok());
}

// A mapped file would end the process with SIGBUS here.
TEST(LengthIndexTest, AFileThatIsCutAfterwardsChangesNothing) {
  TempFolder folder;
  const std::string path = folder.path() + "/index";
  ASSERT_TRUE(WriteFileAtomically(path, SerializeIndex(Content())).ok());
  const auto index = LengthIndex::Read(path);
  ASSERT_TRUE(index.ok()) << index.status();
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(index->document(2).num_tokens, 19);
  EXPECT_EQ(index->file_name(1), "b.jsonl");
  EXPECT_EQ(LengthIndex::Read(path).status().code(),
            absl::StatusCode::kDataLoss);
}

// Sizes are compared before memory is taken for them.
TEST(LengthIndexTest, AnAbsurdSizeIsRefusedBeforeItIsRead) {
  TempFolder folder;
  const std::string path = folder.path() + "/index";
  ASSERT_TRUE(WriteFileAtomically(path, SerializeIndex(Content())).ok());
  std::filesystem::resize_file(path, uint64_t{1} << 40);  // sparse
  EXPECT_THAT(LengthIndex::Read(path).status().ToString(),
              HasSubstr("1099511627776 bytes instead of"));
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
  bytes[7] = '2';
  const absl::Status status = LengthIndex::FromBytes(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another version"));
}

// A right checksum over wrong rows: a fault of the writer must not become a
// read outside the map.
TEST(LengthIndexTest, RowsOutOfRangeAreRefusedThoughTheChecksumFits) {
  const std::function<void(IndexContent&)> changes[] = {
      [](IndexContent& c) { c.documents[0].file = 2; },
      [](IndexContent& c) { c.documents[0].file = -1; },
      [](IndexContent& c) { c.documents[1].offset = -1; },
      [](IndexContent& c) { c.documents[1].offset = INT64_MAX; },
      [](IndexContent& c) { c.documents[1].bytes = 0; },
      [](IndexContent& c) { c.documents[1].bytes = INT64_MAX; },
      [](IndexContent& c) { c.documents[0].num_tokens = 0; },
      [](IndexContent& c) { c.documents[0].num_trained = 102; },
      [](IndexContent& c) { c.documents[0].num_trained = -1; },
      [](IndexContent& c) { c.documents[0].largest_token = -2; },
      [](IndexContent& c) { c.documents[0].largest_token_at = -1; },
      [](IndexContent& c) { c.documents[0].details_end = -1; },
      [](IndexContent& c) { c.documents[2].details_end = 5; },
      [](IndexContent& c) { c.documents[0].details_end = 5; },
      [](IndexContent& c) { c.header.num_bad = -1; },
      [](IndexContent& c) { c.header.num_json = -1; },
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

// A damaged index is refused, or it says what it said before.
TEST(LengthIndexTest, DamagedBytesAreRefused) {
  std::mt19937 random(2);
  const std::string sound = SerializeIndex(Content());
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = sound;
    for (int i = 1 + random() % 8; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const bool changed = bytes != sound;
    const absl::Status status =
        LengthIndex::FromBytes(std::move(bytes)).status();
    EXPECT_EQ(status.ok(), !changed) << status;
  }
}

}  // namespace
}  // namespace evenstep::data
