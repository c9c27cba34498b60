#include "data/text/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "data/testing/packed_bytes.h"

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

class TextFileTest : public ::testing::Test {
 protected:
  TextFile Look(const std::string& name, const std::string& content) {
    const std::string path = folder_.path() + "/file";
    EXPECT_TRUE(WriteFileAtomically(path, content).ok());
    return LookAtFile(path, name);
  }
  TextLayout LayoutOf(const std::string& name, const std::string& content) {
    const TextFile file = Look(name, content);
    EXPECT_EQ(file.problem, "") << name;
    return file.layout;
  }

  TempFolder folder_;
};

TEST_F(TextFileTest, NamesOfJsonLinesInAnyCaseMeanLines) {
  for (const char* const name :
       {"a.jsonl", "A.JSONL", "a.ndjson", "a.jsonl.gz", "a.JSONL.ZST"}) {
    EXPECT_EQ(LayoutOf(name, "x"), TextLayout::kLines) << name;
  }
  EXPECT_EQ(LayoutOf("a.txt", "{\"text\": 1}"), TextLayout::kProse);
}

TEST_F(TextFileTest, AJsonFileIsWhatItsFirstRecordSays) {
  for (const char* const content :
       {"{\"text\": \"a\"}\n{\"text\": \"b\"}",
        "[{\"id\": 1, \"text\": \"a\"}]", "\n [\n {\"messages\": [",
        "{\"n\": {\"a\": [1]}, \"prompt\": \"a\"}",
        "\xef\xbb\xbf[{\"conversations\": []}]"}) {
    EXPECT_EQ(LayoutOf("a.json", content), TextLayout::kValues) << content;
  }
  for (const char* const content :
       {"{\"name\": \"x\", \"scripts\": {\"text\": 1}}", "[1, 2]",
        "[[{\"text\"", "[{\"id\": 1}, {\"text\": 1}]", "{}",
        "{\"data\": [{\"text\": \"a\"}]}", "\xef\xbb\xbf {\"a\""}) {
    EXPECT_EQ(LayoutOf("a.json", content), TextLayout::kJson) << content;
    EXPECT_EQ(LayoutOf("a.txt", content), TextLayout::kProse) << content;
  }
  for (const char* const content : {"3", "no JSON", "\"text\""}) {
    EXPECT_EQ(LayoutOf("a.json", content), TextLayout::kProse) << content;
  }
  const TextFile packed = Look("a.json.gz", Gzip("[{\"text\": \"a\"}]"));
  EXPECT_EQ(packed.layout, TextLayout::kValues);
  EXPECT_EQ(packed.packing, Packing::kGzip);
}

TEST_F(TextFileTest, WhatIsNoTextIsNamed) {
  const std::string nul(1, '\0');
  const struct {
    std::string content;
    const char* reason;
  } cases[] = {
      {absl::StrCat("PAR1\x15", nul), "Parquet: not read; convert it to JSONL"},
      {absl::StrCat("\x89PNG\r\n\x1a\n", nul), "an image: not read"},
      {absl::StrCat("\xff\xd8\xff\xe0", nul), "an image: not read"},
      {absl::StrCat("PK\x03\x04\x14", nul),
       "a zip archive (or .docx, .npz, .pt): not read; unpack or convert it"},
      {absl::StrCat("name", std::string(253, '\0'), "ustar"),
       "a tar archive: not read; unpack it"},
      {absl::StrCat("\x7f", "ELF", nul), "a program or library: not read"},
      {absl::StrCat("\x80\x04\x95", nul),
       "a Python pickle: not read; convert it to JSONL"},
      {absl::StrCat("@", std::string(7, '\0'), "{\"a\": 1}"),
       "safetensors weights: not read"},
      {absl::StrCat("MMIDIDX", nul),
       "a Megatron index; its source is megatron:PREFIX"},
      {"%PDF-1.4\n", "a PDF: not read; extract its text first"},
      {absl::StrCat("BZh91AY&SY\xff\xff", nul),
       "compressed, but neither gzip nor Zstandard: not read; unpack it"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "a Git LFS pointer, not the data itself; run `git lfs pull`"},
      {absl::StrCat("\xff\xfe", "a", nul),
       "UTF-16 text; convert it, such as with `iconv -f utf-16 -t utf-8`"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(Look("a.txt", one.content).problem, one.reason);
    // Compressed, and with the name of records, it is the same.
    EXPECT_EQ(Look("a.jsonl.zst", Zstd(one.content)).problem, one.reason);
  }
  const std::string zeros = absl::StrCat("a", nul, "b", nul);
  EXPECT_EQ(Look("a.txt", zeros).problem,
            "a NUL at byte 2: binary data, or UTF-16; text is UTF-8");
  EXPECT_EQ(Look("a.jsonl", zeros).problem, "") << "other lines may be sound";
  EXPECT_EQ(Look("a.gz", Gzip(Gzip("a"))).problem,
            "compressed twice; unpack it once");
  EXPECT_THAT(Look("a.gz", Gzip("abc").substr(0, 12)).problem,
              HasSubstr("compressed data ends early"));
}

TEST_F(TextFileTest, ProseThatBeginsLikeABinaryFileIsProse) {
  for (const char* const content :
       {"PAR1 is a magic word", "BZh", "ORC and elf", "ID3 tags", "GIF89a",
        "The ftyp box", "PK", "II*", "version https://git-lfs.github.com"}) {
    EXPECT_EQ(LayoutOf("a.txt", content), TextLayout::kProse) << content;
  }
}

TEST_F(TextFileTest, AMarkOfUtf8IsSeen) {
  EXPECT_EQ(Look("a",
                 "\xef\xbb\xbf"
                 "a")
                .mark_bytes,
            3);
  EXPECT_EQ(Look("a", "a").mark_bytes, 0);
}

// All ways to cut a text into two blocks.
TEST(TextCheckTest, BlocksAreOneText) {
  const std::string sound = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82z";
  for (size_t cut = 0; cut <= sound.size(); ++cut) {
    TextCheck check(/*contiguous=*/true);
    check.Add(sound.substr(0, cut));
    check.Add(sound.substr(cut));
    EXPECT_EQ(check.Finish(), "") << cut;
    if (cut == 0 || cut == sound.size()) continue;
    const std::string problem = CheckWholeText(sound.substr(0, cut));
    const bool splits = (sound[cut] & 0xC0) == 0x80;
    EXPECT_EQ(problem.empty(), !splits) << cut;
  }
}

TEST(TextCheckTest, TheFirstWrongByteIsNamed) {
  EXPECT_THAT(CheckWholeText("caf\xe9s"), HasSubstr("byte 4 is 0xe9, which is "
                                                    "not UTF-8 (Latin-1?)"));
  EXPECT_THAT(CheckWholeText("ab\xe2\x82"), HasSubstr("byte 3 is 0xe2"));
  EXPECT_THAT(CheckWholeText(std::string("ab\0", 3)),
              HasSubstr("a NUL at byte 3"));
  TextCheck check(/*contiguous=*/true);
  check.Add(std::string(100, 'x') + "\xe2\x82");
  check.Add("x");
  EXPECT_THAT(check.Finish(), HasSubstr("byte 101 is 0xe2"));
}

TEST(TextCheckTest, CharactersThatGapsCutAreNotLookedAt) {
  TextCheck check(/*contiguous=*/false);
  check.Add("ab\xe2\x82");
  check.Add("\x99z\xe2");
  EXPECT_EQ(check.Finish(), "");
  TextCheck wrong(/*contiguous=*/false);
  wrong.Add("ab");
  wrong.Add("c\xffzzzz");
  EXPECT_THAT(wrong.Finish(), HasSubstr("is 0xff"));
}

}  // namespace
}  // namespace evenstep::data
