#include "data/megatron/megatron_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "data/testing/megatron_bytes.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MegatronIndexTest, DocumentsAreRunsOfSequences) {
  const std::string bytes =
      IndexBytes({.lengths = {3, 2, 4}, .indices = {0, 2, 2, 3}});
  const auto index = MegatronIndex::Parse(bytes);
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->num_documents(), 3);
  EXPECT_EQ(index->header().type, MegatronType::kInt32);
  EXPECT_EQ(index->Document(0, 36).num_tokens, 5);
  EXPECT_EQ(index->Document(1, 36).num_tokens, 0);
  EXPECT_EQ(index->Document(2, 36).num_tokens, 4);
  EXPECT_EQ(index->Document(2, 36).offset, 20);
  EXPECT_EQ(index->Document(2, 36).problem, "");
  EXPECT_THAT(index->Document(2, 35).problem, HasSubstr("data file's 35"));
  EXPECT_THAT(index->Document(2, 19).problem, HasSubstr("byte 20 of 19"));
}

TEST(MegatronIndexTest, SequencesOfOtherModesAreNoText) {
  const std::string bytes =
      IndexBytes({.lengths = {3, 2}, .indices = {0, 1, 2}, .modes = {0, 1}});
  const auto index = MegatronIndex::Parse(bytes);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->Document(0, 20).problem, "");
  EXPECT_THAT(index->Document(1, 20).problem, HasSubstr("mode 1"));
}

TEST(MegatronIndexTest, WrongSequencesAreNamed) {
  const std::string negative = IndexBytes({.lengths = {-1}, .indices = {0, 1}});
  EXPECT_THAT(MegatronIndex::Parse(negative)->Document(0, 20).problem,
              HasSubstr("length -1"));
  const std::string apart =
      IndexBytes({.lengths = {1, 1}, .indices = {0, 2}, .offsets = {0, 8}});
  EXPECT_THAT(MegatronIndex::Parse(apart)->Document(0, 20).problem,
              HasSubstr("byte 8, not at 4"));
  const std::string before =
      IndexBytes({.lengths = {1}, .indices = {0, 1}, .offsets = {-4}});
  EXPECT_THAT(MegatronIndex::Parse(before)->Document(0, 20).problem,
              HasSubstr("byte -4"));
}

TEST(MegatronIndexTest, UnsoundHeadersAndIndicesAreRefusedByName) {
  const struct {
    MegatronFile file;
    const char* reason;
  } cases[] = {
      {{.magic = std::string("MMIDIDY\0\0", 9)}, "begin with MMIDIDX"},
      {{.version = 2}, "version 2"},
      {{.type = 0}, "type code 0"},
      {{.type = 9}, "type code 9"},
      {{.type = 6}, "floating point"},
      {{.type = 7}, "floating point"},
      {{.lengths = {1}, .indices = {0}}, "end at sequence 0 of 1"},
      {{.lengths = {1}, .indices = {0, 2}}, "end at sequence 2 of 1"},
      {{.lengths = {1, 1}, .indices = {0, 2, 1}}, "is 1 after 2"},
      {{.lengths = {1}, .indices = {1, 1}}, "is 1 after 0"},
      {{.lengths = {}, .indices = {}}, "0 document indices"},
  };
  for (const auto& one : cases) {
    const std::string bytes = IndexBytes(one.file);
    EXPECT_THAT(std::string(MegatronIndex::Parse(bytes).status().message()),
                HasSubstr(one.reason));
  }
}

TEST(MegatronIndexTest, EveryTruncationIsRefusedWithItsSize) {
  const std::string bytes = IndexBytes(
      {.lengths = {3, 2, 4}, .indices = {0, 2, 3}, .modes = {0, 0, 0}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    // Without its modes it is another sound file.
    if (size == bytes.size() - 3) continue;
    const auto index =
        MegatronIndex::Parse(absl::string_view(bytes).substr(0, size));
    EXPECT_EQ(index.status().code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(index.status().message()),
                HasSubstr(std::to_string(size)));
  }
}

TEST(MegatronIndexTest, CountsThatWouldOverflowAreRefused) {
  std::string bytes = IndexBytes({});
  std::memset(bytes.data() + 18, 0xff, 8);
  EXPECT_FALSE(MegatronIndex::Parse(bytes).ok());
  bytes = IndexBytes({});
  std::memset(bytes.data() + 26, 0x7f, 8);
  EXPECT_FALSE(MegatronIndex::Parse(bytes).ok());
}

TEST(MegatronIndexTest, DamagedBytesNeverCrash) {
  std::mt19937 random(3);
  const std::string sound = IndexBytes({.lengths = {3, 2, 4, 1},
                                        .indices = {0, 2, 3, 4},
                                        .modes = {0, 0, 0, 1}});
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = sound;
    for (int i = 1 + random() % 4; i > 0; --i) {
      bytes[9 + random() % (bytes.size() - 9)] = static_cast<char>(random());
    }
    const auto index = MegatronIndex::Parse(bytes);
    if (!index.ok()) continue;
    for (int64_t i = 0; i < index->num_documents(); ++i) {
      const MegatronDocument document = index->Document(i, 40);
      if (!document.problem.empty()) continue;
      EXPECT_GE(document.offset, 0);
      EXPECT_LE(document.offset + document.num_tokens *
                                      MegatronTokenBytes(index->header().type),
                40);
    }
  }
}

TEST(MegatronIndexTest, TokensOfEveryTypeAreRead) {
  EXPECT_THAT(*DecodeMegatronTokens(MegatronType::kUint8, "\x01\xff"),
              ElementsAre(1, 255));
  EXPECT_THAT(*DecodeMegatronTokens(MegatronType::kUint16, "\x01\x80"),
              ElementsAre(0x8001));
  EXPECT_THAT(*DecodeMegatronTokens(MegatronType::kInt16,
                                    absl::string_view("\x01\x00", 2)),
              ElementsAre(1));
  EXPECT_THAT(*DecodeMegatronTokens(MegatronType::kInt32,
                                    absl::string_view("\x01\x00\x02\x00", 4)),
              ElementsAre(0x20001));
  EXPECT_THAT(*DecodeMegatronTokens(MegatronType::kInt64,
                                    absl::string_view("\x07\0\0\0\0\0\0\0", 8)),
              ElementsAre(7));
}

TEST(MegatronIndexTest, TokensThatAreNoneAreRefused) {
  EXPECT_THAT(
      DecodeMegatronTokens(MegatronType::kInt8, "\x01\xff").status().ToString(),
      HasSubstr("token 1 is -1"));
  EXPECT_FALSE(
      DecodeMegatronTokens(MegatronType::kInt64, std::string(8, '\x7f')).ok());
  EXPECT_FALSE(DecodeMegatronTokens(MegatronType::kInt32, "abc").ok());
}

}  // namespace
}  // namespace evenstep::data
