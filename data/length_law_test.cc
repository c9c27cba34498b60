#include "data/length_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace evenstep::data {
namespace {

using ::testing::HasSubstr;

std::vector<int64_t> Lengths(const std::string& text, int64_t num_samples,
                             uint64_t seed = 1) {
  auto law = ParseLengthLaw(text);
  EXPECT_TRUE(law.ok()) << law.status();
  std::vector<int64_t> lengths;
  for (const LengthDraw& draw : DrawLengths(*law, num_samples, seed)) {
    lengths.push_back(draw.length);
  }
  return lengths;
}

double MeanOf(const std::vector<int64_t>& values) {
  return static_cast<double>(
             std::accumulate(values.begin(), values.end(), int64_t{0})) /
         static_cast<double>(values.size());
}

int64_t QuantileOf(std::vector<int64_t> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share *
                                    static_cast<double>(values.size()))];
}

TEST(LengthLawTest, TheSameSeedDrawsTheSameLengthsAndMoreOfThem) {
  const auto lengths = Lengths("wikipedia", 100, 7);
  EXPECT_EQ(lengths, Lengths("wikipedia", 100, 7));
  EXPECT_NE(lengths, Lengths("wikipedia", 100, 8));
  auto more = Lengths("wikipedia", 200, 7);
  more.resize(100);
  EXPECT_EQ(lengths, more);
}

TEST(LengthLawTest, WikipediaHasItsQuantiles) {
  const auto lengths = Lengths("wikipedia", 200000);
  EXPECT_NEAR(QuantileOf(lengths, 0.1), 87, 3);
  EXPECT_NEAR(QuantileOf(lengths, 0.5), 347, 8);
  EXPECT_NEAR(QuantileOf(lengths, 0.9), 2103, 60);
  EXPECT_NEAR(QuantileOf(lengths, 0.99), 10962, 700);
  EXPECT_NEAR(MeanOf(lengths), 1018, 60);
  EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), 269428);
  EXPECT_GE(*std::min_element(lengths.begin(), lengths.end()), 1);
}

TEST(LengthLawTest, LognormalHasItsMeanOrMedian) {
  EXPECT_NEAR(
      QuantileOf(Lengths("lognormal(median=1500,sigma=1.4)", 100000), 0.5),
      1500, 30);
  EXPECT_NEAR(MeanOf(Lengths("lognormal(1024, 1)", 200000)), 1024, 20);
  const auto clipped = Lengths("lognormal(1024, 1.5, 128, 8192)", 20000);
  EXPECT_EQ(*std::min_element(clipped.begin(), clipped.end()), 128);
  EXPECT_EQ(*std::max_element(clipped.begin(), clipped.end()), 8192);
}

TEST(LengthLawTest, ShortBalancedAndLongDrawClipSizesByTheirWeights) {
  const double expected = MeanOf(Lengths("balanced", 100000));
  EXPECT_LT(MeanOf(Lengths("short", 100000)), expected / 4);
  EXPECT_GT(MeanOf(Lengths("long", 100000)), expected * 2);
  // 1/216 over the sum of 1 / (k + 5)^3, k from 1 to 25.
  const auto lengths = Lengths("short", 100000);
  const auto shortest = std::count(lengths.begin(), lengths.end(), 144);
  EXPECT_NEAR(static_cast<double>(shortest) / 1e5, 0.292, 0.005);
}

TEST(LengthLawTest,
     ClipSizesAreProductsFromOneFrameToFourHundredThousandTokens) {
  const auto& sizes = ClipSizes();
  ASSERT_EQ(sizes.size(), 25u);
  EXPECT_EQ(sizes.front(), (LengthDraw{144, 1, 9, 16}));
  EXPECT_EQ(sizes.back(), (LengthDraw{432000, 120, 45, 80}));
  for (const LengthDraw& size : sizes) {
    EXPECT_EQ(size.length, size.frames * size.height * size.width);
  }
}

std::string ErrorOf(const std::string& text) {
  const auto law = ParseLengthLaw(text);
  EXPECT_EQ(law.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(law.status().message());
}

TEST(LengthLawTest, WrongLawsAreRefusedWithWhatIsKnown) {
  EXPECT_THAT(ErrorOf("shrt"), HasSubstr("short, balanced, long"));
  EXPECT_THAT(ErrorOf("lognormal"), HasSubstr("brackets"));
  EXPECT_THAT(ErrorOf("lognormal(1,2,3,4,5)"), HasSubstr("more than four"));
  EXPECT_THAT(ErrorOf("lognormal(mu=1)"), HasSubstr("'mu'"));
  EXPECT_THAT(ErrorOf("lognormal(100)"), HasSubstr("sigma"));
  EXPECT_THAT(ErrorOf("lognormal(0,1)"), HasSubstr("mean or a median"));
  EXPECT_THAT(ErrorOf("lognormal(mean=1,median=1,sigma=1)"),
              HasSubstr("not both"));
  EXPECT_THAT(ErrorOf("lognormal(1e300,1)"), HasSubstr("at most"));
  EXPECT_THAT(ErrorOf("lognormal(nan,1)"), HasSubstr("nan"));
  EXPECT_THAT(ErrorOf("lognormal(100,1,9,8)"), HasSubstr("min is 9"));
  EXPECT_THAT(ErrorOf("lognormal(100,99)"), HasSubstr("sigma is from 0"));
}

TEST(LengthLawTest, FilesAreNoLaws) {
  EXPECT_TRUE(IsLengthLaw("short"));
  EXPECT_TRUE(IsLengthLaw("lognormal(1,2)"));
  EXPECT_FALSE(IsLengthLaw("./short"));
  EXPECT_FALSE(IsLengthLaw("lengths.txt"));
}

}  // namespace
}  // namespace evenstep::data
