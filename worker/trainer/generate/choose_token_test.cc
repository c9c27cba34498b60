#include "worker/trainer/generate/choose_token.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 4000;

// How often each token is chosen.
std::map<int32_t, int> Draw(const std::vector<float>& scores,
                            const ChoiceOptions& options) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[*ChooseToken(scores, options, i)];
  return counts;
}

std::vector<float> ScoresOf(const std::vector<double>& probabilities) {
  std::vector<float> scores;
  for (const double p : probabilities) {
    scores.push_back(static_cast<float>(std::log(p)));
  }
  return scores;
}

TEST(ChooseTokenTest, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  ChoiceOptions options;
  options.temperature = 0;
  for (int place = 0; place < 5; ++place) {
    EXPECT_EQ(*ChooseToken({1.0F, 3.0F, 3.0F, 2.0F}, options, place), 1);
  }
}

TEST(ChooseTokenTest, TokensComeAsOftenAsTheirProbabilitiesSay) {
  const std::vector<float> scores = ScoresOf({0.5, 0.2, 0.3});
  const auto counts = Draw(scores, {});
  EXPECT_NEAR(counts.at(0) / double{kDraws}, 0.5, 0.03);
  EXPECT_NEAR(counts.at(1) / double{kDraws}, 0.2, 0.03);
  EXPECT_NEAR(counts.at(2) / double{kDraws}, 0.3, 0.03);
}

TEST(ChooseTokenTest, ALowTemperatureSharpensAndAHighOneFlattens) {
  const std::vector<float> scores = ScoresOf({0.6, 0.4});
  ChoiceOptions options;
  options.temperature = 0.5;  // probabilities squared: 0.36 to 0.16
  EXPECT_NEAR(Draw(scores, options).at(0) / double{kDraws}, 0.692, 0.03);
  options.temperature = 100;
  EXPECT_NEAR(Draw(scores, options).at(0) / double{kDraws}, 0.501, 0.03);
}

TEST(ChooseTokenTest, TopKAndTopPLeaveTheUnlikelyOut) {
  const std::vector<float> scores = ScoresOf({0.1, 0.4, 0.2, 0.3});
  ChoiceOptions options;
  options.top_k = 2;
  auto counts = Draw(scores, options);
  EXPECT_EQ(counts.count(0) + counts.count(2), 0u);
  EXPECT_NEAR(counts.at(1) / double{kDraws}, 4.0 / 7, 0.03);
  options = {};
  options.top_p = 0.69;  // 0.4 and 0.3 reach it
  counts = Draw(scores, options);
  EXPECT_EQ(counts.size(), 2u);
  options.top_p = 1e-9;  // one is always left
  counts = Draw(scores, options);
  EXPECT_EQ(counts.at(1), kDraws);
}

TEST(ChooseTokenTest, TheSeedDecides) {
  const std::vector<float> scores(50, 0.0F);
  ChoiceOptions one, other;
  other.seed = 1;
  int same = 0;
  for (int place = 0; place < 100; ++place) {
    EXPECT_EQ(*ChooseToken(scores, one, place),
              *ChooseToken(scores, one, place));
    same +=
        *ChooseToken(scores, one, place) == *ChooseToken(scores, other, place)
            ? 1
            : 0;
  }
  EXPECT_LT(same, 20);
}

TEST(ChooseTokenTest, HugeScoresAndTinyTemperaturesStayFinite) {
  ChoiceOptions options;
  options.temperature = 1e-12;
  EXPECT_EQ(*ChooseToken({-3e38F, 3e38F, 0.0F}, options, 0), 1);
}

TEST(ChooseTokenTest, BadScoresAndOptionsAreErrorsWithTheNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ChooseToken({0.0F, nan}, {}, 0).status().ToString(),
              HasSubstr("token 1 a score of nan"));
  EXPECT_FALSE(ChooseToken({}, {}, 0).ok());
  EXPECT_TRUE(ValidateChoice({}).ok());
  EXPECT_THAT(ValidateChoice({.temperature = -1}).ToString(), HasSubstr("-1"));
  EXPECT_THAT(ValidateChoice({.top_k = -2}).ToString(), HasSubstr("top-k: -2"));
  EXPECT_THAT(ValidateChoice({.top_p = 0}).ToString(), HasSubstr("top-p: 0"));
  EXPECT_FALSE(ValidateChoice({.top_p = 1.5}).ok());
}

}  // namespace
}  // namespace evenstep::trainer
