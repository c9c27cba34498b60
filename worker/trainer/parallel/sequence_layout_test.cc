#include "worker/trainer/parallel/sequence_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

TEST(SequenceLayoutTest, PartsMustDivideTheDegree) {
  EXPECT_EQ(MakeLayout(6, 2)->gather, 3);
  EXPECT_EQ(MakeLayout(6, 6)->gather, 1);
  EXPECT_THAT(std::string(MakeLayout(6, 4).status().message()),
              HasSubstr("ulysses degree 4 does not divide"));
  EXPECT_FALSE(MakeLayout(6, 0).ok());
}

TEST(SequenceLayoutTest, UlyssesPadsTheMicroBatch) {
  EXPECT_EQ(PaddedTokens({3, 4}, {.ulysses = 2}), 8);
}

TEST(SequenceLayoutTest, ZigzagPadsEachDocumentToTwiceTheDegree) {
  EXPECT_EQ(PaddedTokens({698}, {.gather = 4}), 704);
  const SequenceLayout eight{.gather = 8};
  EXPECT_EQ(PaddedDocumentTokens(137, eight), 144);
  EXPECT_EQ(PaddedDocumentTokens(2041, eight), 2048);
  EXPECT_EQ(PaddedDocumentTokens(89, eight), 96);
  EXPECT_EQ(PaddedTokens({137, 2041, 89}, eight), 144 + 2048 + 96);
}

// It is worked out anew for every degree.
TEST(SequenceLayoutTest, PaddingFollowsTheDegree) {
  EXPECT_EQ(PaddedTokens({698}, {.gather = 1}), 698);
  EXPECT_EQ(PaddedTokens({698}, {.gather = 3}), 702);
  EXPECT_EQ(PaddedTokens({698}, {.gather = 5}), 700);
  EXPECT_EQ(PaddedTokens({698}, {.ulysses = 2, .gather = 2}), 704);
  EXPECT_EQ(PaddedTokens({698}, {.ulysses = 4}), 700);
}

TEST(SequenceLayoutTest, EveryTokenStandsInOnePartOnce) {
  const std::vector<int64_t> lengths = {1, 2, 23, 48};
  for (int gather : {1, 2, 3, 5, 7}) {
    const SequenceLayout layout{.gather = gather};
    std::vector<std::vector<int>> seen;
    for (int64_t length : lengths) {
      seen.emplace_back(PaddedDocumentTokens(length, layout), 0);
    }
    for (int part = 0; part < gather; ++part) {
      int64_t tokens = 0;
      for (const TokenRun& run : RunsOfPart(lengths, layout, part)) {
        for (int64_t i = run.begin; i < run.end; ++i) ++seen[run.document][i];
        tokens += run.size();
      }
      if (gather > 1) {
        EXPECT_EQ(tokens * gather, PaddedTokens(lengths, layout));
      }
    }
    for (const std::vector<int>& document : seen) {
      EXPECT_THAT(document, ::testing::Each(1)) << "gather " << gather;
    }
  }
}

// Pairs that a causal mask leaves are the same number in every part.
TEST(SequenceLayoutTest, ZigzagBalancesCausalAttention) {
  const std::vector<int64_t> lengths = {60};
  int64_t first = 0;
  for (int part = 0; part < 5; ++part) {
    int64_t pairs = 0;
    for (const TokenRun& run : RunsOfPart(lengths, {.gather = 5}, part)) {
      for (int64_t i = run.begin; i < run.end; ++i) pairs += i + 1;
    }
    if (part == 0) first = pairs;
    EXPECT_EQ(pairs, first);
  }
}

}  // namespace
}  // namespace evenstep::trainer
