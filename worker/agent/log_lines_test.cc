#include "worker/agent/log_lines.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineSplitterTest, LinesAreCutAtTheirEndsAcrossReads) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(splitter.Add("o\r\n\nthree"), ElementsAre("two", ""));
  EXPECT_EQ(splitter.TakeRest(), "three");
  EXPECT_EQ(splitter.TakeRest(), "");
}

TEST(LineSplitterTest, ALongLineIsCutAndSaysSo) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add(std::string(kMaxLineBytes, 'x')), IsEmpty());
  EXPECT_THAT(splitter.Add(std::string(kMaxLineBytes, 'y')), IsEmpty());
  EXPECT_THAT(splitter.Add("z\nnext\n"),
              ElementsAre(std::string(kMaxLineBytes, 'x') + " [cut]", "next"));
}

TEST(LineSplitterTest, ALineOfExactlyTheBoundIsWhole) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add(std::string(kMaxLineBytes, 'x') + "\n"),
              ElementsAre(std::string(kMaxLineBytes, 'x')));
}

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

TEST(LineRateTest, BurstsAreLimitedAndTimeBringsRoomBack) {
  LineRate rate(10);
  int allowed = 0;
  for (int i = 0; i < 100; ++i) {
    if (rate.Allow(absl::Seconds(100))) ++allowed;
  }
  EXPECT_EQ(allowed, 20);
  allowed = 0;
  for (int i = 0; i < 100; ++i) {
    if (rate.Allow(absl::Seconds(101))) ++allowed;
  }
  EXPECT_EQ(allowed, 10);
}

}  // namespace
}  // namespace evenstep::agent
