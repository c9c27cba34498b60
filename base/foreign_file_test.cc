#include "base/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "base/testing/temp_folder.h"

namespace evenstep {
namespace {

using ::testing::HasSubstr;

TEST(ForeignFileTest, FormatsAreKnownByTheirFirstBytes) {
  const std::pair<absl::string_view, const char*> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {absl::string_view("PK\x03\x04\0", 5), "PyTorch's checkpoints"},
      {absl::string_view("\x80\x02}q\0", 5), "Python pickle"},
      {"GGUF\x03", "GGUF"},
      {"\x1f\x8b\x08", "gzip"},
      {"PAR1\x15", "Parquet"},
      {" <HTML>", "HTML page"},
      {absl::string_view("\x40\0\0\0\0\0\0\0{\"a\":", 14), "safetensors"}};
  for (const auto& [bytes, description] : cases) {
    EXPECT_THAT(DescribeForeignFile(bytes), HasSubstr(description));
  }
}

TEST(ForeignFileTest, TextAndUnknownBytesAreOfNoFormat) {
  for (const absl::string_view bytes :
       {absl::string_view(), absl::string_view("GG"),
        absl::string_view("{\"a\": 1}"), absl::string_view("# notes\n"),
        absl::string_view("\0\0\0\0\0\0\0\0\0\0\0\0", 12),
        absl::string_view("version 2 of the text")}) {
    EXPECT_EQ(DescribeForeignFile(bytes), "");
  }
}

TEST(ForeignFileTest, AFileIsReadAndNoFileIsNothing) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  EXPECT_EQ(DescribeForeignFileAt(path), "");
  std::ofstream(path) << "GGUF" << std::string(1000, 'x');
  EXPECT_EQ(DescribeForeignFileAt(path), "a GGUF file (llama.cpp)");
  EXPECT_EQ(DescribeForeignFileAt(folder.path()), "");
}

}  // namespace
}  // namespace evenstep
