#include "base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

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

// The tree as text that means the same: everything in brackets.
std::string Written(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kNull) return "null";
  if (node.kind == YamlNode::Kind::kScalar) return YamlScalar(node.scalar);
  std::vector<std::string> parts;
  for (const YamlNode& item : node.items) parts.push_back(Written(item));
  for (const YamlEntry& entry : node.entries) {
    parts.push_back(YamlScalar(entry.key) + ": " + Written(entry.value));
  }
  const bool list = node.kind == YamlNode::Kind::kList;
  return absl::StrCat(list ? "[" : "{", absl::StrJoin(parts, ", "),
                      list ? "]" : "}");
}

// Either an error that names a line of the text, or a tree that reads back.
TEST(YamlTest, RandomTextNeverCrashes) {
  std::mt19937 random(7);
  const std::string letters = "ab:{}[]-,&*!|>'\"%@`#?\n\n  \t\\~0";
  int num_read = 0;
  int num_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const size_t size = random() % 60;
    while (text.size() < size) text += letters[random() % letters.size()];
    const auto root = ParseYaml(text, "f");
    if (root.ok()) {
      ++num_read;
      const auto again = ParseYaml(Written(*root), "f");
      ASSERT_TRUE(again.ok()) << again.status() << " in " << Written(*root);
      EXPECT_EQ(Written(*again), Written(*root)) << text;
      continue;
    }
    ++num_refused;
    EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument);
    const std::vector<std::string> parts =
        absl::StrSplit(root.status().message(), absl::MaxSplits(':', 2));
    int line = 0;
    ASSERT_TRUE(parts.size() == 3 && parts[0] == "f" &&
                absl::SimpleAtoi(parts[1], &line) && parts[2].size() > 1)
        << root.status();
    EXPECT_GE(line, 1);
    EXPECT_LE(line, 1 + std::count(text.begin(), text.end(), '\n')) << text;
  }
  EXPECT_GT(num_read, 300);
  EXPECT_GT(num_refused, 300);
}

TEST(YamlTest, TextThatIsNotUtf8IsRefusedWithItsLine) {
  EXPECT_EQ(
      ErrorOf("a: 1\nb: \xff\n"),
      "f.yaml:2: the line: byte 4 is 0xff, which is not UTF-8; save the file "
      "as UTF-8");
}

TEST(YamlTest, CommonSlipsAreSaidInPlainWords) {
  const std::pair<absl::string_view, const char*> cases[] = {
      {"a: 1\nb:\n\tc: 2\n", "y:3: a tab indents this line"},
      {"{\"a\": 1,", "y:1: a '{' has no '}'"},
      {"a: [1, 2", "a '[' has no ']'"},
      {absl::string_view("a: 1\nb: \0x\n", 11),
       "y:2: byte 4 of the line is NUL"},
      {"version https://git-lfs.github.com/spec/v1\n",
       "y: it is a Git LFS pointer"},
      {"<html></html>", "y: it is an HTML page"}};
  for (const auto& [text, sentence] : cases) {
    EXPECT_THAT(std::string(ParseYaml(text, "y").status().message()),
                ::testing::HasSubstr(sentence))
        << text;
  }
}

}  // namespace
}  // namespace evenstep
