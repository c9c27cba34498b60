#include "data/megatron/megatron_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "data/testing/megatron_bytes.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

class MegatronWriterTest : public ::testing::Test {
 protected:
  std::string prefix() const { return folder_.path() + "/corpus"; }
  std::string Bytes(const std::string& end) const {
    return ReadWholeFile(prefix() + end, 1 << 20).value_or("none");
  }

  TempFolder folder_;
};

TEST_F(MegatronWriterTest, FilesAreThoseOfTheFormatsDescription) {
  auto writer = MegatronWriter::Create(prefix(), MegatronType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddDocument({1, 70000, 3}).ok());
  ASSERT_TRUE(writer->AddDocument({4, 5}).ok());
  EXPECT_EQ(writer->num_tokens(), 5);
  ASSERT_TRUE(std::move(*writer).Finish().ok());
  EXPECT_EQ(Bytes(".bin"), TokenBytes({1, 70000, 3, 4, 5}, 4));
  EXPECT_EQ(Bytes(".idx"),
            IndexBytes({.lengths = {3, 2}, .indices = {0, 1, 2}}));
}

TEST_F(MegatronWriterTest, SmallVocabulariesTakeTwoBytes) {
  EXPECT_EQ(MegatronTypeFor(257), MegatronType::kUint16);
  EXPECT_EQ(MegatronTypeFor(128256), MegatronType::kInt32);
  auto writer = MegatronWriter::Create(prefix(), MegatronTypeFor(257));
  ASSERT_TRUE(writer->AddDocument({256, 1}).ok());
  EXPECT_THAT(writer->AddDocument({65536}).ToString(),
              HasSubstr("65536 does not fit 2 bytes"));
  EXPECT_FALSE(writer->AddDocument({-1}).ok());
  EXPECT_FALSE(writer->AddDocument({}).ok());
}

TEST_F(MegatronWriterTest, WhatIsNotFinishedLeavesNothing) {
  { auto writer = MegatronWriter::Create(prefix(), MegatronType::kInt32); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_FALSE(
      MegatronWriter::Create("/no/such/folder/x", MegatronType::kInt32).ok());
}

TEST_F(MegatronWriterTest, AFullDiskIsAnError) {
  std::filesystem::create_symlink("/dev/full", prefix() + ".bin.partial");
  auto writer = MegatronWriter::Create(prefix(), MegatronType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddDocument({1}).ok());
  EXPECT_THAT(std::move(*writer).Finish().ToString(),
              HasSubstr(prefix() + ".bin.partial"));
  EXPECT_EQ(Bytes(".idx"), "none");
}

}  // namespace
}  // namespace evenstep::data
