#include "data/index/indexed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/temp_folder.h"
#include "data/index/content_hash.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

TEST(ContentHasherTest, PiecesHashAsTheWholeDoes) {
  const std::string text(100'000, 'x');
  ContentHasher hasher;
  hasher.Add(absl::string_view(text).substr(0, 33));
  hasher.Add(absl::string_view(text).substr(33));
  EXPECT_EQ(hasher.value(), HashContent(text));
  EXPECT_NE(HashContent(text), HashContent(text + "x"));
  // It is stored, so it must never change.
  EXPECT_EQ(HashContent("evenstep"), 7340817991020013370u);
}

TEST(RangeReaderTest, RangesInAnyOrderAreTheFilesBytes) {
  TempFolder folder;
  const std::string path = folder.path() + "/file";
  std::string bytes;
  for (int i = 0; i < (3 << 20) + 7; ++i) {
    bytes.push_back(static_cast<char>(i % 251));
  }
  std::ofstream(path, std::ios::binary) << bytes;
  auto reader = RangeReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const int64_t offset : {0, 5, (1 << 20) - 3, 2 << 20, 100, 3 << 20}) {
    const auto read = reader->Read(offset, 7);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, bytes.substr(offset, 7)) << offset;
  }
  EXPECT_EQ(*reader->Read(1, RangeReader::kMostBytes),
            bytes.substr(1, RangeReader::kMostBytes));
  EXPECT_EQ(reader->Read((3 << 20) + 1, 7).status().code(),
            absl::StatusCode::kDataLoss);
}

class ReadIndexedDocumentTest : public ::testing::Test {
 protected:
  ReadIndexedDocumentTest() : path_(folder_.path() + "/file") {
    Write("0123456789");
    struct stat info;
    stat(path_.c_str(), &info);
    file_.bytes = 10;
    file_.mtime_ns =
        int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    row_.offset = 2;
    row_.bytes = 6;
    row_.hash = HashContent("234567");
  }
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  absl::StatusOr<std::string> Read(int64_t bytes) const {
    return ReadIndexedDocument({path_, "the document", file_, row_}, bytes);
  }

  TempFolder folder_;
  std::string path_;
  IndexedFile file_;
  IndexedDocument row_;
};

TEST_F(ReadIndexedDocumentTest, WholeOrItsStart) {
  EXPECT_EQ(*Read(6), "234567");
  EXPECT_EQ(*Read(3), "234");
}

TEST_F(ReadIndexedDocumentTest, OtherBytesAroundItDoNotMatter) {
  Write("xx234567yyyyyy");
  EXPECT_EQ(*Read(6), "234567");
  EXPECT_EQ(*Read(3), "234");
}

TEST_F(ReadIndexedDocumentTest, OtherBytesOfItsOwnAreDataLoss) {
  Write("0123456x89++");
  for (const int64_t bytes : {3, 6}) {
    EXPECT_EQ(Read(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(Read(bytes).status().ToString(),
                HasSubstr("the document changed since it was indexed"));
  }
}

TEST_F(ReadIndexedDocumentTest, AFileThatWasCutOrReplacedIsDataLoss) {
  Write("01234");
  EXPECT_THAT(Read(6).status().ToString(), HasSubstr("from 10 to 5 bytes"));
  EXPECT_EQ(Read(2).status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(path_);
  EXPECT_EQ(Read(6).status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(Read(6).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace evenstep::data
