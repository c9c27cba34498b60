#include "base/utf8.h"

#include <gtest/gtest.h>

namespace evenstep {
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
}  // namespace evenstep
