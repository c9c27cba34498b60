#include "data/text/jsonl.h"

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

// "[text]" trained, "(text)" masked; a dot where an end token follows.
std::string Shown(const TextDocument& document) {
  std::string shown;
  for (const TextPart& part : document) {
    const bool trained = part.loss == Loss::kTrained;
    absl::StrAppend(&shown, trained ? "[" : "(", part.text,
                    part.ends ? "." : "", trained ? "]" : ")");
  }
  return shown;
}

std::string Parsed(absl::string_view line) {
  const auto document = ParseJsonDocument(line);
  return document.ok() ? Shown(*document)
                       : std::string(document.status().message());
}

TEST(JsonlTest, TextIsTakenWithItsEscapes) {
  EXPECT_EQ(Parsed(R"({"id": 1, "text": "a\n\u00e9\u0000b"})"),
            std::string("[a\n\xc3\xa9\0b.]", 9));
  EXPECT_EQ(Parsed("{\"text\": \"x\", \"prompt\": 1}\r"), "[x.]");
}

TEST(JsonlTest, PromptIsMaskedAndCompletionTrained) {
  EXPECT_EQ(Parsed(R"({"prompt": "1+1=", "completion": "2"})"), "(1+1=)[2.]");
  EXPECT_EQ(Parsed(R"({"prompt": "1+1=", "response": "2"})"), "(1+1=)[2.]");
  EXPECT_EQ(Parsed(R"({"prompt": "a", "completion": ""})"), "(a)[.]");
}

TEST(JsonlTest, OnlyAnswersOfTheAssistantAreTrained) {
  EXPECT_EQ(Parsed(R"({"messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "Hello"},
      {"role": "user", "content": "Bye"},
      {"role": "assistant", "content": "See you"}]})"),
            "(<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\n)[Hello.]"
            "(<|user|>\nBye\n<|assistant|>\n)[See you.]");
}

TEST(JsonlTest, AChatWithoutAnAnswerIsAllMasked) {
  EXPECT_EQ(Parsed(R"({"messages": [{"role": "user", "content": "Hi"}]})"),
            "(<|user|>\nHi\n.)");
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
      {"{\"txt\": \"a\"}", "no field `text`, `messages` or `prompt`"},
      {"{\"text\": 3}", "`text` is not a string"},
      {"{\"text\": null}", "`text` is not a string"},
      {"{\"text\": \"\"}", "empty"},
      {"{\"prompt\": \"a\"}", "no field `completion`"},
      {"{\"prompt\": 1, \"completion\": \"a\"}", "`prompt` is not a string"},
      {"{\"prompt\": \"\", \"completion\": \"\"}", "empty"},
      {"{\"messages\": {}}", "`messages` is not a list"},
      {"{\"messages\": []}", "empty"},
      {"{\"messages\": [1]}", "message is not a JSON object"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "no field `role`"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}",
       "`content` is not a string"},
  };
  for (const auto& one : cases) {
    const auto document = ParseJsonDocument(one.line);
    EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument)
        << one.line;
    EXPECT_THAT(std::string(document.status().message()),
                HasSubstr(one.reason));
  }
}

TEST(JsonlTest, DeepNestingIsNoStackOverflow) {
  const std::string deep(1000000, '[');
  EXPECT_FALSE(ParseJsonDocument(deep).ok());
  EXPECT_TRUE(ParseJsonDocument(absl::StrCat("{\"text\":\"a\",\"x\":", deep,
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
    ParseJsonDocument(damaged).status().IgnoreError();
  }
}

}  // namespace
}  // namespace evenstep::data
