#include "base/parse_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace evenstep {
namespace {

template <typename T>
T Parsed(absl::string_view text) {
  T value{};
  EXPECT_TRUE(ParseValue(text, &value).ok()) << text;
  return value;
}

template <typename T>
bool IsRefused(absl::string_view text) {
  T value{};
  return !ParseValue(text, &value).ok() && value == T{};
}

TEST(ParseValueTest, WholeNumbersAreStrict) {
  EXPECT_EQ(Parsed<int>("-12"), -12);
  EXPECT_EQ(Parsed<int64_t>("9223372036854775807"),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Parsed<uint64_t>("18446744073709551615"),
            std::numeric_limits<uint64_t>::max());
  for (const char* text : {"", " 1", "1 ", "1.0", "1e3", "0x10", "one"}) {
    EXPECT_TRUE(IsRefused<int64_t>(text)) << text;
  }
  EXPECT_TRUE(IsRefused<int>("2147483648"));
  EXPECT_TRUE(IsRefused<uint64_t>("-1"));
}

TEST(ParseValueTest, NumbersAreFinite) {
  EXPECT_EQ(Parsed<double>("3e-4"), 3e-4);
  for (const char* text : {"", "nan", "inf", "-inf", "1e999", "1,5", "1 "}) {
    EXPECT_TRUE(IsRefused<double>(text)) << text;
  }
}

TEST(ParseValueTest, DurationsNeedUnitsAndAreNotNegative) {
  EXPECT_EQ(Parsed<absl::Duration>("1m30s"), absl::Seconds(90));
  EXPECT_EQ(Parsed<absl::Duration>("250ms"), absl::Milliseconds(250));
  for (const char* text : {"", "60", "-1s", "inf", "1 s", "1d"}) {
    EXPECT_TRUE(IsRefused<absl::Duration>(text)) << text;
  }
}

TEST(ParseValueTest, SwitchesAreTrueOrFalseOnly) {
  EXPECT_TRUE(Parsed<bool>("true"));
  EXPECT_FALSE(Parsed<bool>("false"));
  for (const char* text : {"", "yes", "1", "True"}) {
    bool value = false;
    EXPECT_FALSE(ParseValue(text, &value).ok()) << text;
  }
}

TEST(ParseValueTest, FormattedNumbersReadBackExactly) {
  for (const double value : {0.0, 0.1, 1.0 / 3, 1e-300, 1e300, -2.5, 3e-4}) {
    EXPECT_EQ(Parsed<double>(FormatValue(value)), value);
  }
  EXPECT_EQ(FormatValue(3e-4), "0.0003");
  const absl::Duration odd = absl::Milliseconds(61001);
  EXPECT_EQ(Parsed<absl::Duration>(FormatValue(odd)), odd);
}

}  // namespace
}  // namespace evenstep
