// Names that people type, and hashes that name content.
#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/fnv1a.h"
#include "base/version.h"

namespace evenstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NearestNameTest, SlipsFindTheirNameAndOthersDoNot) {
  const std::vector<std::string> known = {"layers", "width", "heads"};
  EXPECT_EQ(NearestName("layer", known), "layers");
  EXPECT_EQ(NearestName("wdith", known), "width");
  EXPECT_EQ(NearestName("vocabulary", known), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), known), "");
}

TEST(NearestNameTest, HintListsAllNamesAndAsksOnlyWhenOneIsNear) {
  const std::vector<std::string> known = {"fail", "skip"};
  EXPECT_THAT(
      KnownNamesHint("skp", known),
      AllOf(HasSubstr("did you mean 'skip'?"), HasSubstr("known: fail, skip")));
  EXPECT_THAT(KnownNamesHint("truncate", known),
              AllOf(Not(HasSubstr("did you mean")), HasSubstr("fail, skip")));
}

TEST(Fnv1aTest, MatchesThePublishedValues) {
  Fnv1a64 empty;
  EXPECT_EQ(empty.value(), 0xcbf29ce484222325ULL);
  Fnv1a64 letter;
  letter.AddBytes("a");
  EXPECT_EQ(letter.value(), 0xaf63dc4c8601ec8cULL);
  Fnv1a64 word;
  word.AddBytes("foobar");
  EXPECT_EQ(word.value(), 0x85944171f73967e8ULL);
}

TEST(Fnv1aTest, StringsCarryTheirSizes) {
  Fnv1a64 a;
  a.AddString("ab");
  a.AddString("c");
  Fnv1a64 b;
  b.AddString("a");
  b.AddString("bc");
  EXPECT_NE(a.value(), b.value());
}

TEST(VersionTest, VersionAndCommitAreFilledIn) {
  EXPECT_FALSE(Version().empty());
  EXPECT_FALSE(GitCommit().empty());
  EXPECT_EQ(GitCommit().find('@'), absl::string_view::npos);
}

}  // namespace

namespace {

TEST(ToValidUtf8Test, ValidTextStaysAsItIs) {
  for (const char* text : {"", "plain", "\xc3\xa4", "\xe2\x82\xac",
                           "\xf0\x9f\x98\x80", "\xed\x9f\xbf"}) {
    EXPECT_EQ(ToValidUtf8(text), text);
  }
}

TEST(ToValidUtf8Test, EveryBrokenByteIsReplaced) {
  EXPECT_EQ(ToValidUtf8("a\xff"
                        "b"),
            "a?b");
  EXPECT_EQ(ToValidUtf8("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(ToValidUtf8("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(ToValidUtf8("\xf4\x90\x80\x80"), "????");  // above U+10FFFF
  EXPECT_EQ(ToValidUtf8("\xe2\x82"), "??");            // cut short
  EXPECT_EQ(ToValidUtf8("\xe0\x80\x80"), "???");       // overlong
}

TEST(CheckUtf8Test, NamesTheFirstBadByte) {
  EXPECT_TRUE(CheckUtf8("message", "a\xe2\x82\xac").ok());
  const absl::Status status = CheckUtf8("message", "ab\xff");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "message: byte 3 is 0xff, which is not UTF-8");
}

TEST(Utf8CutTest, NoCharacterIsSplit) {
  const std::string text =
      "a\xe2\x82\xac"
      "b";  // 1, 3 and 1 bytes
  EXPECT_EQ(Utf8Prefix(text, 5), text);
  EXPECT_EQ(Utf8Prefix(text, 4), "a\xe2\x82\xac");
  EXPECT_EQ(Utf8Prefix(text, 3), "a");
  EXPECT_EQ(Utf8Prefix(text, 2), "a");
  EXPECT_EQ(Utf8Prefix(text, 0), "");
  EXPECT_EQ(Utf8Suffix(text, 5), text);
  EXPECT_EQ(Utf8Suffix(text, 4),
            "\xe2\x82\xac"
            "b");
  EXPECT_EQ(Utf8Suffix(text, 3), "b");
  EXPECT_EQ(Utf8Suffix(text, 1), "b");
  EXPECT_EQ(Utf8Suffix(text, 0), "");
}

}  // namespace

namespace {

TEST(CountedTest, OneIsSingular) {
  EXPECT_EQ(Counted(1, "GPU"), "1 GPU");
  EXPECT_EQ(Counted(0, "GPU"), "0 GPUs");
  EXPECT_EQ(Counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(Counted(2, "micro-batch"), "2 micro-batches");
}

}  // namespace

}  // namespace evenstep
