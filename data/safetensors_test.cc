#include "data/safetensors.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::data {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() {
    char folder[] = "/tmp/safetensors_test.XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/model.safetensors";
  }
  ~SafetensorsTest() override { fs::remove_all(folder_); }

  std::string FileBytes() const {
    std::ifstream in(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  // A good file of three tensors, one of them empty.
  std::string GoodBytes() const {
    EXPECT_TRUE(WriteSafetensors(path_,
                                 {{"b", "F32", {2, 1}, {"abcdefgh", 8}},
                                  {"empty", "F32", {0, 5}, {}},
                                  {"a", "I64", {1}, {"12345678", 8}}},
                                 {{"step", "7"}})
                    .ok());
    return FileBytes();
  }

  std::string folder_;
  std::string path_;
};

std::string WithHeader(std::string header, absl::string_view data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(header.size() >> (8 * i));
  }
  return bytes + header + std::string(data);
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  GoodBytes();
  const auto file = ReadSafetensors(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata, (SafetensorsMetadata{{"step", "7"}}));
  ASSERT_EQ(file->tensors.size(), 3u);
  ASSERT_NE(file->Find("b"), nullptr);
  EXPECT_EQ(file->Find("b")->bytes, "abcdefgh");
  EXPECT_EQ(file->Find("b")->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(file->Find("a")->bytes, "12345678");
  EXPECT_EQ(file->Find("empty")->bytes, "");
  EXPECT_EQ(file->Find("c"), nullptr);
}

TEST_F(SafetensorsTest, TheLayoutIsTheOneThatIsSpecified) {
  const std::string bytes = GoodBytes();
  const auto header_bytes = static_cast<unsigned char>(bytes[0]);
  EXPECT_EQ(header_bytes % 8, 0);
  EXPECT_EQ(bytes.substr(1, 7), std::string(7, '\0'));
  EXPECT_EQ(bytes[8], '{');
  // The wide type stands first.
  EXPECT_EQ(bytes.substr(8 + header_bytes), "12345678abcdefgh");
}

TEST_F(SafetensorsTest, NoTemporaryFileStays) {
  GoodBytes();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(SafetensorsTest, AFileCutAnywhereIsNamedAsCorrupt) {
  const std::string bytes = GoodBytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto file = ParseSafetensors(bytes.substr(0, size), "cut");
    ASSERT_TRUE(absl::IsDataLoss(file.status())) << size;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("cut: "));
  }
}

TEST_F(SafetensorsTest, AByteTooManyIsCorrupt) {
  EXPECT_TRUE(
      absl::IsDataLoss(ParseSafetensors(GoodBytes() + "x", "f").status()));
}

TEST_F(SafetensorsTest, AFlippedBitIsReadOrRefusedButNeverCrashes) {
  const std::string good = GoodBytes();
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      const auto file = ParseSafetensors(bytes, "flipped");
      EXPECT_TRUE(file.ok() || absl::IsDataLoss(file.status())) << i;
    }
  }
}

TEST_F(SafetensorsTest, AnAbsurdHeaderLengthIsNotAllocated) {
  std::string bytes(16, '\xff');
  const auto file = ParseSafetensors(bytes, "f");
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("a header of 18446744073709551615 bytes"));
}

TEST_F(SafetensorsTest, MalformedHeadersAreRefused) {
  const char* headers[] = {
      "[]",
      "{",
      R"({"a":1})",
      R"({"a":{"dtype":"F32","shape":[1]}})",
      R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
      (R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],)"
       R"("data_offsets":[0,4]}})"),
      R"({"__metadata__":{"a":1}})",
      R"({"__metadata__":[]})",
  };
  for (const char* header : headers) {
    EXPECT_TRUE(absl::IsDataLoss(
        ParseSafetensors(WithHeader(header, "1234"), "f").status()))
        << header;
  }
}

TEST_F(SafetensorsTest, OverlapsAreRefused) {
  const char* header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_FALSE(ParseSafetensors(WithHeader(header, "1234"), "f").ok());
}

TEST_F(SafetensorsTest, WritingChecksNamesTypesAndSizes) {
  EXPECT_TRUE(absl::IsInvalidArgument(WriteSafetensors(
      path_, {{"a", "F32", {1}, "1234"}, {"a", "F32", {1}, "1234"}}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      WriteSafetensors(path_, {{"a", "F32", {2}, "1234"}}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      WriteSafetensors(path_, {{"a", "X", {2}, "12"}}, {})));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SafetensorsTest, AFolderThatIsNotThereIsNamed) {
  const absl::Status status =
      WriteSafetensors(folder_ + "/no/model", {{"a", "U8", {1}, "1"}}, {});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/model"));
  EXPECT_TRUE(absl::IsNotFound(ReadSafetensors(folder_ + "/no").status()));
}

}  // namespace
}  // namespace evenstep::data
