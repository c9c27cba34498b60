#include "base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace evenstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseYaml(text, "f.yaml").status().message());
}

TEST(YamlTest, TreeKeepsOrderAndLines) {
  const auto root = ParseYaml("# note\nb: 1\na:\n  c: [x, 'null', ~]\n", "f");
  ASSERT_TRUE(root.ok()) << root.status();
  ASSERT_EQ(root->entries.size(), 2u);
  EXPECT_EQ(root->entries[0].key, "b");
  EXPECT_EQ(root->entries[0].line, 2);
  EXPECT_EQ(root->entries[0].value.scalar, "1");
  const YamlNode& list = root->entries[1].value.entries[0].value;
  EXPECT_EQ(list.line, 4);
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_EQ(list.items[1].kind, YamlNode::Kind::kScalar);
  EXPECT_EQ(list.items[2].kind, YamlNode::Kind::kNull);
}

TEST(YamlTest, EmptyTextIsNull) {
  for (const char* text : {"", "\n\n", "# only a note\n", "~\n"}) {
    const auto root = ParseYaml(text, "f");
    ASSERT_TRUE(root.ok()) << text;
    EXPECT_EQ(root->kind, YamlNode::Kind::kNull) << text;
  }
}

TEST(YamlTest, ErrorsNameFileAndLine) {
  EXPECT_THAT(ErrorOf("a: 1\nb: [1, 2\n"), StartsWith("f.yaml:"));
  EXPECT_THAT(ErrorOf("a: 1\na: 2\n"), StartsWith("f.yaml:2: key 'a'"));
  EXPECT_THAT(ErrorOf("x:\n  - [k]: 1\n"), HasSubstr("f.yaml:2:"));
}

TEST(YamlTest, AliasesCannotMakeAFileGrow) {
  EXPECT_THAT(ErrorOf("a: &x [1]\nb: [*x, *x]\n"),
              HasSubstr("anchors are not allowed"));
}

TEST(YamlTest, DepthSizeAndNumberOfDocumentsAreBounded) {
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("64 levels"));
  EXPECT_THAT(ErrorOf(std::string((1 << 20) + 1, ' ')), HasSubstr("at most"));
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("more than one"));
}

TEST(YamlTest, ScalarsReadBackAsTheSameText) {
  for (const std::string& text :
       {std::string("plain"), std::string(""), std::string("null"),
        std::string("~"), std::string("- x"), std::string("a: b"),
        std::string("a#b"), std::string("two\nlines"), std::string("\"q\""),
        std::string("text:/a/**/*.h"), std::string("-1"), std::string("..."),
        std::string("tab\tand \\"), std::string("\xc3\xa9")}) {
    const auto root = ParseYaml("k: " + YamlScalar(text) + "\n", "f");
    ASSERT_TRUE(root.ok()) << root.status() << " for " << text;
    EXPECT_EQ(root->entries[0].value.scalar, text);
    EXPECT_EQ(root->entries[0].value.kind, YamlNode::Kind::kScalar);
  }
}

TEST(YamlTest, RandomTextNeverCrashes) {
  std::mt19937 random(7);
  const std::string letters = "ab:{}[]-,&*!|>'\"%@`#?\n\n  \t\\~0";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += letters[random() % letters.size()];
    ParseYaml(text, "f").status().IgnoreError();
  }
}

TEST(YamlTest, TextThatIsNotUtf8IsRefusedWithItsLine) {
  EXPECT_EQ(ErrorOf("a: 1\nb: \xff\n"),
            "f.yaml:2: the line: byte 4 is 0xff, which is not UTF-8");
}

}  // namespace
}  // namespace evenstep
