#include "data/text/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "base/text.h"

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
  // A class, and a score.
  EXPECT_EQ(Parsed(R"({"prompt": "a", "completion": "b", "label": 0,
                       "score": 1})"),
            "(a)[b.]");
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

TEST(JsonlTest, AnAnswerOfWeightZeroIsMasked) {
  EXPECT_EQ(Parsed(R"({"messages": [
      {"role": "user", "content": "a"},
      {"role": "assistant", "content": "wrong", "weight": 0},
      {"role": "user", "content": "b", "weight": 0},
      {"role": "assistant", "content": "right", "weight": 1}]})"),
            "(<|user|>\na\n<|assistant|>\n)(wrong.)"
            "(<|user|>\nb\n<|assistant|>\n)[right.]");
  for (const char* const key : {"\"train\": false", "\"training\": false",
                                "\"loss\": false", "\"weight\": 0.0"}) {
    EXPECT_EQ(Parsed(absl::StrCat(
                  R"({"messages": [{"role": "assistant", "content": "a", )",
                  key, "}]}")),
              "(<|assistant|>\n)(a.)");
  }
  EXPECT_EQ(Parsed(R"({"text": "a", "weight": 0})"), "(a.)");
  EXPECT_EQ(Parsed(R"({"prompt": "p", "completion": "c", "train": true})"),
            "(p)[c.]");
}

TEST(JsonlTest, NullAndEmptyFieldsAreAbsent) {
  EXPECT_EQ(Parsed(R"({"text": null, "prompt": "p", "completion": "c",
                       "response": null, "messages": null})"),
            "(p)[c.]");
  EXPECT_EQ(Parsed(R"({"text": null, "tools": [], "images": null, "messages": [
      {"role": "assistant", "content": "hi", "tool_calls": [], "name": null,
       "weight": null, "function_call": {}, "reasoning_content": ""}]})"),
            "(<|assistant|>\n)[hi.]");
}

TEST(JsonlTest, PartsOfTextAreJoined) {
  EXPECT_EQ(Parsed(R"({"messages": [{"role": "assistant", "content": [
      {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})"),
            "(<|assistant|>\n)[ab.]");
}

TEST(JsonlTest, KeysThatChangeNothingArePassedOver) {
  EXPECT_EQ(Parsed(R"({"text": "a", "id": 1, "meta": {"n": 1e3}, "label": 3,
                       "labels": ["x"], "image": "a.png", "mask": [1, 1, 0]})"),
            "[a.]");
}

struct Refused {
  std::string record;
  std::string reason;
};

void ExpectRefused(const std::vector<Refused>& cases) {
  for (const Refused& one : cases) {
    const auto document = ParseJsonDocument(one.record);
    EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument)
        << one.record;
    EXPECT_EQ(std::string(document.status().message()), one.reason)
        << one.record;
  }
}

TEST(JsonlTest, WhatIsNoJsonSaysWhyAndWhere) {
  const std::string utf8 =
      ", which is not UTF-8 (Latin-1?); convert the file, such as with `iconv "
      "-f latin1 -t utf-8`";
  ExpectRefused({
      {"", "the line is empty"},
      {" \t\r", "the line is empty"},
      {"{",
       "cut off: the record ends after byte 1, before it is closed; a "
       "record is one object on one line"},
      {R"({"text": "ab)",
       "cut off: the record ends after byte 12, within a string; a record is "
       "one object on one line"},
      {R"({"text": "ab",)",
       "cut off: the record ends after byte 14, before it is closed; a record "
       "is one object on one line"},
      {R"({"text": "a",})", "a comma too many at byte 13"},
      {R"({"text": "a", "n": [1, 2, ]})", "a comma too many at byte 25"},
      {R"({"text": "a"} x)",
       "extra data at byte 15, after the record's end; a line has one record"},
      {R"({"text": "a"}{"text": "b"})",
       "extra data at byte 14, after the record's end; a line has one record"},
      {std::string("{\"text\": \"a\"}\0{\"text\": \"b\"}", 27),
       "a NUL at byte 14, which JSON does not have; remove it"},
      {std::string("{\"text\": \"a\0b\"}", 15),
       "a NUL at byte 12, which JSON does not have; remove it"},
      {"{\"text\": \"gr\xf6\xdf"
       "er\"}",
       "byte 13 is 0xf6" + utf8},
      {"{\"text\": \"caf\xe9\"}", "byte 14 is 0xe9" + utf8},
      {"\xff\xfe{", "byte 1 is 0xff" + utf8},
      {R"({"text": "lone \ud83d here"})",
       "a lone surrogate \\ud83d at byte 16, which is half a character; repair "
       "the text"},
      {R"({"text": "swapped \ude00\ud83d"})",
       "a lone surrogate \\ude00 at byte 19, which is half a character; repair "
       "the text"},
      {R"({"text": "\ud83d\ude00 \ud83d"})",
       "a lone surrogate \\ud83d at byte 24, which is half a character; repair "
       "the text"},
      {R"({"text": "a", "score": NaN})",
       "NaN at byte 24 is not JSON; write null or leave it out"},
      {R"({"text": "a", "score": Infinity})",
       "Infinity at byte 24 is not JSON; write null or leave it out"},
      {R"({"text": "a", "score": -Infinity})",
       "Infinity at byte 25 is not JSON; write null or leave it out"},
      {R"({"text": "a", "n": 1e400})",
       "the number 1e400 at byte 20 is too large for a double"},
      {R"({'text': 'a'})",
       "a single quote at byte 2, as Python prints: JSON has double quotes "
       "(write it with json.dumps)"},
      {R"({"text": "a", "ok": True})",
       "True at byte 21 is Python, not JSON (write it with json.dumps)"},
      {R"({"text": "a", "ok": None})",
       "None at byte 21 is Python, not JSON (write it with json.dumps)"},
      {"{\"text\": \"a\tb\"}",
       "a control character 0x09 at byte 12, within a string; escape it (\\n, "
       "\\t, \\u0000)"},
      {R"({"text": "C:\data"})",
       "the escape at byte 13 is none of JSON's; write a backslash as \\\\"},
      {"3 4",
       "extra data at byte 3, after the record's end; a line has one "
       "record"},
      {"once upon a time", "not JSON: `o` at byte 1 does not belong there"},
      {R"({"text" "a"})", "not JSON: `\"` at byte 11 does not belong there"},
      {"[{\"text\": \"a\"}]",
       "the record is a list, not an object; name a file that is one list of "
       "records *.json"},
      {"\"text\"", "the record is a string, not an object"},
      {"null", "the record is null, not an object"},
      {R"({"text": "a", "text": "b"})", "the key `text` is there twice"},
      {R"({"messages": [{"role": "user", "role": "assistant"}]})",
       "the key `role` is there twice"},
      {std::string(1000000, '['), "nested deeper than 64 objects and lists"},
      {R"({"text": "a", "x": )" + std::string(64, '[') + std::string(64, ']') +
           "}",
       "nested deeper than 64 objects and lists"},
  });
}

TEST(JsonlTest, ARecordWithoutASoundDocumentSaysWhy) {
  const std::string none = "there is no `text`, `messages` or `prompt`";
  ExpectRefused({
      {"{}", none + "; the record has no fields"},
      {R"({"txt": "a", "id": null})",
       none + "; the record has `id` (null), `txt`"},
      {R"({"text": null})", none + "; the record has `text` (null)"},
      {R"({"content": "a"})", none + ": rename `content` to `text`"},
      {R"({"instruction": "a", "output": "b"})",
       none + ": rename `instruction` to `prompt` and `output` to "
              "`completion`"},
      {R"({"conversations": [{"from": "human", "value": "a"}]})",
       none + ": rename `conversations` to `messages`, and in its parts `from` "
              "to `role` and `value` to `content`"},
      {R"({"instruction": "a", "context": "b", "response": "c"})",
       none + ": rename `instruction` (with `context`) to `prompt`"},
      {R"({"input_ids": [1]})",
       none + ": token ids are trained from megatron:PREFIX"},
      {R"({"text": 3})", "`text` is a number, not a string"},
      {R"({"text": ["a"]})", "`text` is a list, not a string"},
      {R"({"text": ""})", "empty: `text` has no text"},
      {R"({"prompt": "a"})", "there is no `completion`"},
      {R"({"prompt": "a", "completion": null})",
       "there is no `completion` (it is null)"},
      {R"({"prompt": 1, "completion": "a"})",
       "`prompt` is a number, not a string"},
      {R"({"prompt": "", "completion": ""})",
       "empty: `prompt` and the completion have no text"},
      {R"({"prompt": "a", "completion": "b", "response": "c"})",
       "`completion` and `response` are both there; leave one out"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
       "pairs of `chosen` and `rejected` are not trained"},
      {R"({"prompt": "a", "completion": "b", "rejected": "c"})",
       "pairs of `chosen` and `rejected` are not trained"},
      {R"({"messages": [{"role": "user", "content": "a"}], "chosen": "c"})",
       "pairs of `chosen` and `rejected` are not trained"},
      {R"({"prompt": "a", "completion": "b", "reward": 0})",
       "answers are not weighed by `reward`; keep the good ones"},
      {R"({"prompt": "a", "completion": "b", "label": false})",
       "`label` of true or false says whether the answer is good, and both "
       "would be trained; keep the good ones, without `label`"},
      {R"({"messages": {}})", "`messages` is an object, not a list"},
      {R"({"messages": []})", "empty: `messages` has no message"},
      {R"({"messages": [1]})", "message 1: it is a number, not an object"},
      {R"({"messages": [{"content": "a"}]})", "message 1: there is no `role`"},
      {R"({"messages": [{"role": "user", "content": null}]})",
       "message 1: there is no `content` (it is null)"},
      {R"({"messages": [{"role": "user", "content": 1}]})",
       "message 1: `content` is a number, not a string"},
      {R"({"messages": [{"role": "gpt", "content": "a"}]})",
       "message 1: role `gpt` is not known; what is trained has role "
       "`assistant`"},
      {R"({"messages": [{"role": "Assistant", "content": "a"}]})",
       "message 1: role `Assistant` is not known; what is trained has role "
       "`assistant`"},
  });
}

TEST(JsonlTest, AKeyThatChangesTrainingIsHonouredOrRefused) {
  const auto message = [](const std::string& key) {
    return R"({"messages": [{"role": "assistant", "content": "a", )" + key +
           "}]}";
  };
  ExpectRefused({
      {message(R"("weight": 0.5)"),
       "message 1: `weight` is 0.5; it is 0 (not trained) or 1 (trained)"},
      {message(R"("train": "no")"),
       "message 1: `train` is a string; it is 0 (not trained) or 1 (trained)"},
      {message(R"("weight": 0, "train": true)"),
       "message 1: `train` contradicts another key"},
      {message(R"("loss_mask": [0])"),
       "message 1: `loss_mask` is not supported: use `weight` (0 or 1) "
       "to select trained messages"},
      {message(R"("tool_calls": [{"id": 1}])"),
       "message 1: `tool_calls` is not supported: put the answer into "
       "`content`"},
      {message(R"("reasoning_content": "hm")"),
       "message 1: `reasoning_content` is not supported: put the answer into "
       "`content`"},
      {message(R"("name": "Ann")"),
       "message 1: `name` is not supported: write what the model shall see "
       "into `content`"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 1}]})",
       "message 1: it shall be trained, but is of role `user`; only answers of "
       "`assistant` are"},
      {R"({"messages": [{"role": "user", "content": [
          {"type": "text", "text": "a"}, {"type": "image_url"}]}]})",
       "message 1: part 2 of `content` is not of type `text`; only text is "
       "trained"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})",
       "`tools` is not supported: write them into a message of role system"},
      {R"({"prompt": "a", "completion": "b", "system": "c"})",
       "`system` is not supported: make it the first of `messages`, with role "
       "system"},
      {R"({"prompt": "a", "completion": "b", "images": ["c"]})",
       "`images` is not supported: only text is trained"},
      {R"({"text": "a", "weight": 2})",
       "`weight` is 2; it is 0 (not trained) or 1 (trained)"},
      {R"({"text": "a", "labels": [-100, 5]})",
       "`labels` of numbers is not supported: masks come from `prompt` or "
       "`messages`"},
      {R"({"text": "a", "mask": [0, 1]})",
       "`mask` is not supported: masks come from `prompt` or `messages`; only "
       "ones with zeros after them, which mark padding, are passed over"},
  });
}

TEST(JsonlTest, ARecordThatIsTooLongSaysHowLong) {
  JsonLine line;
  line.bytes = kMaxJsonLineBytes + 1;
  EXPECT_EQ(ParseJsonDocument(line).status().message(),
            "the record has 268435457 bytes, more than 268435456; split it");
}

TEST(JsonlTest, ScanGivesNumberOffsetAndContentOfEachLine) {
  TempFolder folder;
  const std::string path = folder.path() + "/f.jsonl";
  ASSERT_TRUE(WriteFileAtomically(path, "ab\n\n  \r\ncd\r\nlast").ok());
  std::vector<std::string> lines;
  ASSERT_TRUE(
      ScanJsonRecords(path, TextLayout::kLines, [&](const JsonLine& line) {
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
  ASSERT_TRUE(
      ScanJsonRecords(path, TextLayout::kLines, [&](const JsonLine& line) {
        EXPECT_EQ(static_cast<int64_t>(line.content.size()), line.bytes);
        sizes.push_back(line.bytes);
      }).ok());
  EXPECT_THAT(sizes, ElementsAre(1, 2'500'000, 1));
}

TEST(JsonlTest, AScanThatIsNotToGoOnReadsNoFurther) {
  TempFolder folder;
  const std::string path = folder.path() + "/f.jsonl";
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "0123456789\n";
  ASSERT_TRUE(WriteFileAtomically(path, lines).ok());
  int num_lines = 0;
  EXPECT_TRUE(ScanJsonRecords(
                  path, TextLayout::kLines,
                  [&](const JsonLine&) { ++num_lines; }, [] { return false; })
                  .ok());
  EXPECT_GT(num_lines, 0);
  EXPECT_LT(num_lines, 50'000);
}

TEST(JsonlTest, FileThatCannotBeReadSaysSo) {
  const auto ignore = [](const JsonLine&) {};
  EXPECT_EQ(
      ScanJsonRecords("/no/such.jsonl", TextLayout::kLines, ignore).code(),
      absl::StatusCode::kNotFound);
  EXPECT_FALSE(ScanJsonRecords("/tmp", TextLayout::kLines, ignore).ok());
}

// The records of a text as "NUMBER@OFFSET:CONTENT", and why it ends.
std::vector<std::string> Values(absl::string_view text) {
  std::vector<std::string> records;
  const absl::Status status =
      CutJsonRecords(text, TextLayout::kValues, [&](const JsonLine& line) {
        EXPECT_EQ(line.content, text.substr(static_cast<size_t>(line.offset),
                                            static_cast<size_t>(line.bytes)));
        records.push_back(
            absl::StrCat(line.number, "@", line.offset, ":", line.content));
      });
  if (!status.ok()) records.emplace_back(status.message());
  return records;
}

TEST(JsonlTest, ValuesOfAListOrOneAfterTheOtherAreRecords) {
  EXPECT_THAT(Values("[{\"a\": \"}]\"},\n {\"b\": [{}]}]\n"),
              ElementsAre("1@1:{\"a\": \"}]\"}", "2@15:{\"b\": [{}]}"));
  EXPECT_THAT(Values("{\n \"a\": \"\\\"}\"\n}\n{} {}"),
              ElementsAre("1@0:{\n \"a\": \"\\\"}\"\n}", "2@16:{}", "3@19:{}"));
  EXPECT_THAT(Values("\xef\xbb\xbf[{}]"), ElementsAre("1@4:{}"));
  EXPECT_THAT(Values("[]"), ElementsAre());
  EXPECT_THAT(Values("{\"a"), ElementsAre("1@0:{\"a"));
}

TEST(JsonlTest, WhatStandsBetweenValuesIsSaid) {
  EXPECT_THAT(Values("[{}, 3]"),
              ElementsAre("1@1:{}", HasSubstr("byte 6 is where an object")));
  EXPECT_THAT(Values("[{} {}]"),
              ElementsAre("1@1:{}", HasSubstr("byte 5 is where an object")));
  EXPECT_THAT(Values("[{},]"),
              ElementsAre("1@1:{}", HasSubstr("byte 5 is where an object")));
  EXPECT_THAT(Values("{},{}"),
              ElementsAre("1@0:{}", HasSubstr("byte 3 is where an object")));
  EXPECT_THAT(Values("[{}] x"),
              ElementsAre("1@1:{}", HasSubstr("byte 6 follows the list")));
  EXPECT_THAT(Values("[{},"),
              ElementsAre("1@1:{}", HasSubstr("cut off: the list of records is "
                                              "not closed at the end of the "
                                              "file, byte 4")));
}

TEST(JsonlTest, ValuesAcrossChunksAreWhole) {
  TempFolder folder;
  const std::string path = folder.path() + "/f.json";
  const std::string long_value =
      absl::StrCat("{\"text\": \"", std::string(2'500'000, 'x'), "\"}");
  ASSERT_TRUE(
      WriteFileAtomically(path, absl::StrCat("[{}, ", long_value, ", {}]"))
          .ok());
  std::vector<int64_t> sizes;
  ASSERT_TRUE(
      ScanJsonRecords(path, TextLayout::kValues, [&](const JsonLine& line) {
        sizes.push_back(line.content.size());
        EXPECT_EQ(sizes.back(), line.bytes);
      }).ok());
  EXPECT_THAT(sizes, ElementsAre(2, long_value.size(), 2));
}

// A damaged line is bad with a reason, or one trained part of valid text that
// is not longer than the line.
TEST(JsonlTest, RandomAndDamagedLinesNeverCrash) {
  std::mt19937 random(1);
  const std::string line = R"({"text": "some \u00e9 words", "n": [1, {}]})";
  int num_read = 0;
  int num_bad = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = line.substr(0, random() % (line.size() + 1));
    for (int flips = random() % 4; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    const auto document = ParseJsonDocument(damaged);
    if (!document.ok()) {
      ++num_bad;
      EXPECT_NE(damaged, line);
      EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_FALSE(document.status().message().empty());
      continue;
    }
    ++num_read;
    ASSERT_EQ(document->size(), 1u) << damaged;
    const TextPart& part = document->front();
    EXPECT_EQ(part.loss, Loss::kTrained);
    EXPECT_TRUE(part.ends);
    EXPECT_FALSE(part.text.empty());
    EXPECT_LE(part.text.size(), damaged.size());
    EXPECT_TRUE(CheckUtf8("the text", part.text).ok()) << damaged;
    if (damaged == line) {
      EXPECT_EQ(part.text, "some \xc3\xa9 words");
    }
  }
  EXPECT_GT(num_read, 80);
  EXPECT_GT(num_bad, 10000);
}

}  // namespace
}  // namespace evenstep::data
