// Clock, back-off and identifiers: small things that stand on their own.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/ids.h"

namespace evenstep {
namespace {

TEST(ClockTest, RealClockNeverGoesBack) {
  absl::Duration last = RealClock().Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = RealClock().Monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(RealClock().Wall(), absl::UnixEpoch());
}

TEST(ClockTest, FakeClockMovesOnlyWhenTold) {
  FakeClock clock;
  const absl::Duration start = clock.Monotonic();
  const absl::Time wall = clock.Wall();
  EXPECT_EQ(clock.Monotonic(), start);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Monotonic() - start, absl::Seconds(3));
  EXPECT_EQ(clock.Wall() - wall, absl::Seconds(3));
}

TEST(BackoffTest, DoublesUpToTheCapAndStartsAgainAfterSuccess) {
  Backoff backoff({.first = absl::Seconds(1), .cap = absl::Seconds(3)},
                  [] { return 1.0; });
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
  EXPECT_EQ(backoff.Next(), absl::Seconds(2));
  EXPECT_EQ(backoff.Next(), absl::Seconds(3));
  EXPECT_EQ(backoff.Next(), absl::Seconds(3));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
}

TEST(BackoffTest, EveryWaitLiesBetweenHalfAndAll) {
  Backoff backoff({.first = absl::Seconds(8), .cap = absl::Seconds(8)},
                  RandomUniform());
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, absl::Seconds(4));
    EXPECT_LE(wait, absl::Seconds(8));
  }
}

TEST(IdsTest, IdsOfDifferentKindsDoNotMix) {
  EXPECT_FALSE((std::is_convertible_v<Rank, Generation>));
  EXPECT_FALSE((std::is_convertible_v<int, Rank>));
  EXPECT_LT(Rank(1), Rank(2));
  EXPECT_EQ(JobId("a"), JobId(std::string("a")));
}

TEST(IdsTest, JobIdsAreShortLowerCaseNames) {
  EXPECT_TRUE(IsLegalJobId("a"));
  EXPECT_TRUE(IsLegalJobId("train-2-b"));
  EXPECT_TRUE(IsLegalJobId(std::string(63, 'a')));
  for (const std::string& text :
       {std::string(), std::string("2a"), std::string("-a"), std::string("A"),
        std::string("a_b"), std::string("a/b"), std::string("a\n"),
        std::string(64, 'a')}) {
    EXPECT_FALSE(IsLegalJobId(text)) << text;
  }
}

}  // namespace
}  // namespace evenstep
