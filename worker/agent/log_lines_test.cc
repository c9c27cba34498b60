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

TEST(LineSplitterTest, LinesAreValidUtf8) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("a\xff\n"), ElementsAre("a?"));
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
