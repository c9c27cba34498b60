#include "data/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JsonlTest, TextIsTakenWithItsEscapes) {
  EXPECT_EQ(*ParseJsonText(R"({"id": 1, "text": "a\n\u00e9\u0000b"})"),
            std::string("a\n\xc3\xa9\0b", 6));
  EXPECT_EQ(*ParseJsonText("{\"text\": \"\"}\r"), "");
}

TEST(JsonlTest, EveryOtherLineIsRefusedWithTheReason) {
  const struct {
    const char* line;
    const char* reason;
  } cases[] = {
      {"", "empty"},
      {"{", "not JSON"},
      {"{\"text\": \"a\"} x", "not JSON"},
      {"{\"text\": \"\xff\"}", "not JSON"},
      {"[1]", "not a JSON object"},
      {"\"text\"", "not a JSON object"},
      {"{\"txt\": \"a\"}", "no field `text`"},
      {"{\"text\": 3}", "not a string"},
      {"{\"text\": null}", "not a string"},
  };
  for (const auto& one : cases) {
    const auto text = ParseJsonText(one.line);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(one.reason));
  }
}

TEST(JsonlTest, DeepNestingIsNoStackOverflow) {
  const std::string deep(1000000, '[');
  EXPECT_FALSE(ParseJsonText(deep).ok());
  EXPECT_TRUE(ParseJsonText(absl::StrCat("{\"text\":\"a\",\"x\":", deep,
                                         std::string(1000000, ']'), "}"))
                  .ok());
}

TEST(JsonlTest, ScanGivesNumberOffsetAndContentOfEachLine) {
  TempFolder folder;
  const std::string path = folder.path() + "/f.jsonl";
  ASSERT_TRUE(WriteFileAtomically(path, "ab\n\n  \r\ncd\r\nlast").ok());
  std::vector<std::string> lines;
  ASSERT_TRUE(ScanJsonLines(path, [&](const JsonLine& line) {
                lines.push_back(absl::StrCat(line.number, "@", line.offset, "+",
                                             line.bytes, ":", line.content));
              }).ok());
  EXPECT_THAT(lines, ElementsAre("1@0+2:ab", "4@8+3:cd\r", "5@12+4:last"));
}

TEST(JsonlTest, LinesAcrossChunksAreWhole) {
  TempFolder folder;
  const std::string path = folder.path() + "/f.jsonl";
  const std::string megabytes(2'500'000, 'x');
  ASSERT_TRUE(
      WriteFileAtomically(path, absl::StrCat("a\n", megabytes, "\nb\n")).ok());
  std::vector<int64_t> sizes;
  ASSERT_TRUE(ScanJsonLines(path, [&](const JsonLine& line) {
                EXPECT_EQ(static_cast<int64_t>(line.content.size()),
                          line.bytes);
                sizes.push_back(line.bytes);
              }).ok());
  EXPECT_THAT(sizes, ElementsAre(1, 2'500'000, 1));
}

TEST(JsonlTest, FileThatCannotBeReadSaysSo) {
  const auto ignore = [](const JsonLine&) {};
  EXPECT_EQ(ScanJsonLines("/no/such.jsonl", ignore).code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(ScanJsonLines("/tmp", ignore).ok());
}

TEST(JsonlTest, RandomAndDamagedLinesNeverCrash) {
  std::mt19937 random(1);
  const std::string line = R"({"text": "some \u00e9 words", "n": [1, {}]})";
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = line.substr(0, random() % (line.size() + 1));
    for (int flips = random() % 4; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    ParseJsonText(damaged).status().IgnoreError();
  }
}

}  // namespace
}  // namespace evenstep::data
