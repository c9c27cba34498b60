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

// Tensors of 12 MiB: it is the second and the fourth that make a sync due.
TEST_F(SafetensorsTest, ProgressIsToldAsBytesReachTheDisk) {
  const std::string bytes(12 << 20, 'x');
  std::vector<TensorBytes> tensors;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    tensors.push_back({name, "U8", {12 << 20}, bytes});
  }
  std::vector<int64_t> told;
  ASSERT_TRUE(WriteSafetensors(path_, tensors, {}, [&](int64_t written) {
                told.push_back(written);
              }).ok());
  const auto header =
      static_cast<int64_t>(fs::file_size(path_)) - 5 * int64_t{12 << 20};
  EXPECT_THAT(told, ::testing::ElementsAre(header, header + (24 << 20),
                                           header + (48 << 20)));
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

TEST_F(SafetensorsTest, EachCauseHasItsSentence) {
  const std::string entry =
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::pair<std::string, const char*> cases[] = {
      {"", "f: the file is empty"},
      {"abc", "f: only 3 bytes"},
      {WithHeader("{" + entry + "}" + std::string(1, '\0') + "{}", "1234"),
       "f: its header: line 1, column 55: a NUL byte, with 2 more bytes "
       "after it"},
      {WithHeader("{" + entry + "," + entry + "}", "1234"),
       "f: its header: an object has the key 'a' twice"},
      {WithHeader("{" + entry + "} {}", "1234"),
       "more text follows after the end of the value"},
      {WithHeader("{" + entry + "}", "12"),
       "f: its tensors take 4 bytes, the file has 2 bytes of data: the file is "
       "cut short"},
      {WithHeader("{" + entry + "}", "12345"),
       "its tensors take 4 bytes, the file has 5 bytes of data"},
      {WithHeader("{" + entry + "}", "1234").substr(0, 20),
       "a header of 54 bytes in a file of 20: the file is cut short"},
      {"version https://git-lfs.github.com/spec/v1\n",
       "f: it is not a safetensors file but a Git LFS pointer"},
      {std::string("PK\x03\x04\0\0\x08\x08\0\0\0", 11),
       "f: it is not a safetensors file but a zip archive, as PyTorch's"},
      {std::string("GGUF\x03\0\0\0\0\0\0", 11), "but a GGUF file"}};
  for (const auto& [bytes, sentence] : cases) {
    const absl::Status status = ParseSafetensors(bytes, "f").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
    std::ofstream(path_, std::ios::binary) << bytes;
    EXPECT_THAT(ReadSafetensorsHeader(path_).status().ToString(),
                HasSubstr(std::string(sentence).substr(
                    sentence[0] == 'f' && sentence[1] == ':' ? 3 : 0)));
  }
}

TEST_F(SafetensorsTest, NoFileAndAFolderAreNamed) {
  EXPECT_THAT(ReadSafetensorsHeader(folder_ + "/no").status().ToString(),
              HasSubstr("/no: no such file"));
  const absl::Status folder = ReadSafetensorsHeader(folder_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(folder)) << folder;
  EXPECT_THAT(folder.ToString(), HasSubstr("a folder, where a safetensors"));
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
