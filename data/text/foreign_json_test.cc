#include "data/text/foreign_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evenstep::data {
namespace {

using ::testing::IsEmpty;

TEST(ForeignJsonTest, WhatIsInAFileAndHowToTrainOnItIsSaid) {
  const struct {
    const char* json;
    bool is_foreign;
    const char* why;
  } cases[] = {
      {R"([{"question": "a", "answer": "b"}])", true,
       "a list of objects with `question`, `answer`; rename `question` to "
       "`prompt` and `answer` to `completion`"},
      {R"([{"id": 1}, {"text": "a"}])", true,
       "a list of objects with `id`; give each a `text`, `messages` or "
       "`prompt`"},
      {R"({"version": 1, "n": [1, {"x": 2}], "train": [{"text": "a"}], "e": 1})",
       true,
       "they may be those in `train`, with `text`: take them out with `jq -c "
       "'.[\"train\"][]' FILE > NAME.jsonl`"},
      {R"({"data": [{"content": "a", "list": [{"b": 1}]}]})", true,
       "they may be those in `data`, with `content`, `list`: take them out "
       "with `jq -c '.[\"data\"][]' FILE > NAME.jsonl`, and rename `content` "
       "to `text`"},
      {R"(["a doc", "b doc"])", true,
       "a list of strings; make records of them with `jq -c '.[] | {text: .}' "
       "FILE > NAME.jsonl`"},
      {R"({"name": "x", "scripts": {"a": [{"b": 1}]}})", false,
       "an object with `name`, `scripts`"},
      {"{}", false, "an object with no key"},
      {"[1, 2]", false, "a list of numbers"},
      {"[[{\"text\"", false, "a list of lists"},
      {"[]", false, "a list of nothing"}};
  for (const auto& [json, is_foreign, why] : cases) {
    const JsonShape shape = ShapeOfJson(json);
    EXPECT_EQ(WhyNoRecords(shape), std::string("JSON without records: ") + why);
    EXPECT_EQ(HoldsForeignRecords(shape), is_foreign) << json;
    EXPECT_FALSE(HoldsRecords(shape)) << json;
  }
}

TEST(ForeignJsonTest, RenamesNameTheRecordsOwnKeys) {
  using Keys = std::vector<std::string>;
  EXPECT_EQ(HowToRename(Keys{"instruction", "input", "output"}),
            "rename `instruction` (with `input`) to `prompt` and `output` to "
            "`completion`");
  EXPECT_EQ(HowToRename(Keys{"instruction", "context", "response"}),
            "rename `instruction` (with `context`) to `prompt`");
  EXPECT_EQ(HowToRename(Keys{"system_prompt", "question", "response"}),
            "rename `question` (with `system_prompt`) to `prompt`");
  EXPECT_THAT(HowToRename(Keys{"a", "b"}), IsEmpty());
}

}  // namespace
}  // namespace evenstep::data
