#include "base/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/foreign_file.h"
#include "nlohmann/json.hpp"

namespace evenstep {
namespace {

using ::testing::HasSubstr;

TEST(StrictJsonTest, SoundTextIsRead) {
  const auto json = ParseStrictJson(
      " {\"a\": [1, {\"a\": null}, {\"a\": 2.5}], \"b\": {\"a\": \"x\"}} \n");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"][2]["a"], 2.5);
}

TEST(StrictJsonTest, EachCauseHasItsSentence) {
  const std::pair<absl::string_view, const char*> cases[] = {
      {"", "it is empty"},
      {" \n", "it is empty"},
      {absl::string_view("{\"a\": 1}\0{\"b\": 2}", 17),
       "line 1, column 9: a NUL byte, with 8 more bytes after it"},
      {absl::string_view("{\"a\"\0: 1}", 9), "column 5: a NUL byte"},
      {"{\"a\": 1}\n{\"b\": 2}",
       "line 2, column 1: more text follows after the end of the value"},
      {"{\"a\": 1} x", "more text follows after the end of the value"},
      {"{\"a\": 1, \"a\": 2}", "an object has the key 'a' twice"},
      {"{\"x\": [{\"a\": 1}, {\"b\": {}, \"b\": 2}]}", "the key 'b' twice"},
      {"{\"a\": NaN}", "line 1, column 7: NaN is not JSON"},
      {"{\"a\": -Infinity}", "column 7: -Infinity is not JSON"},
      {"{\"a\": True}", "True is Python; JSON says true"},
      {"{\"a\": None}", "None is Python; JSON says null"},
      {"{'a': 1}", "column 2: strings take double quotes"},
      {"{\"a\": 1,}", "a comma before the closing bracket"},
      {"{\"a\": 1 // one\n}", "JSON has no comments"},
      {"{\"a\": [1, 2", "the text ends in the middle of a value"},
      {"{\"a\": \"x", "the text ends in the middle of a value"},
      {"{\"a\": \"\xe9t\xe9\"}", "ill-formed UTF-8 byte"},
      {"{\"a\": 1e999}", "number overflow"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "it is a Git LFS pointer"},
      {"<!DOCTYPE html><html>", "it is an HTML page"},
      {"\xff\xfe{\0", "it is text in UTF-16"}};
  for (const auto& [text, sentence] : cases) {
    const absl::Status status = ParseStrictJson(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence)) << text;
  }
}

TEST(StrictJsonTest, DepthIsBounded) {
  const auto nested = [](int levels) {
    return absl::StrCat(std::string(levels, '['), std::string(levels, ']'));
  };
  EXPECT_TRUE(ParseStrictJson(nested(kMaxJsonDepth)).ok());
  EXPECT_THAT(ParseStrictJson(nested(400'000)).status().ToString(),
              HasSubstr("nested more than 64 deep"));
}

// A message is shown on a terminal and travels in a protobuf string.
TEST(StrictJsonTest, SentencesAreShortAndUtf8) {
  const std::string long_text = absl::StrCat("{\"", std::string(100'000, 'x'));
  for (const std::string& text :
       {absl::StrCat(long_text, "\x01\"}"), absl::StrCat(long_text, "\xff\"}"),
        absl::StrCat(long_text, "\" 1}"), absl::StrCat(long_text, "\": 1e999}"),
        absl::StrCat("{\"a\": ", std::string(10'000, '9'), "e999}")}) {
    const absl::Status status = ParseStrictJson(text).status();
    EXPECT_FALSE(status.ok());
    EXPECT_LT(status.message().size(), 400u) << status;
  }
}

}  // namespace
}  // namespace evenstep
