#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace evenstep {
namespace {

TEST(LogTest, TextLineHasEventThenFields) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, LogLevel::kInfo, "agent",
                          "job_started", {{"job", "a1"}, {"ranks", 4}}),
            "info agent job_started job=a1 ranks=4");
}

TEST(LogTest, TextLineWithoutARoleHasNoGap) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, LogLevel::kInfo, "", "e", {}),
            "info e");
}

TEST(LogTest, TextValuesWithSpacesOrNothingAreQuoted) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, LogLevel::kWarning, "x", "e",
                          {{"a", "two words"}, {"b", ""}, {"c", "k=v"}}),
            "warning x e a=\"two words\" b=\"\" c=\"k=v\"");
}

TEST(LogTest, JsonLineKeepsNumbersAndEscapesText) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, LogLevel::kError, "trainer rank=3",
                          "e", {{"n", 7}, {"s", "a\"b\\c\nd\x01"}}),
            "{\"event\":\"e\",\"level\":\"error\",\"role\":\"trainer rank=3\","
            "\"n\":7,\"s\":\"a\\\"b\\\\c\\nd\\u0001\"}");
}

TEST(LogTest, NumbersThatJsonCannotHoldBecomeText) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, LogLevel::kInfo, "r", "e",
                          {{"x", std::numeric_limits<double>::infinity()},
                           {"y", std::numeric_limits<double>::quiet_NaN()}}),
            "{\"event\":\"e\",\"level\":\"info\",\"role\":\"r\","
            "\"x\":\"inf\",\"y\":\"nan\"}");
}

TEST(LogTest, OneEventIsOneLineInBothFormats) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line = FormatLogLine(format, LogLevel::kInfo, "r", "e",
                                           {{"message", "first\nsecond"}});
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

TEST(LogTest, LevelsAndFormatsParseByName) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("debug", &level).ok());
  EXPECT_EQ(level, LogLevel::kDebug);
  EXPECT_FALSE(ParseLogLevel("loud", &level).ok());
  LogFormat format = LogFormat::kText;
  EXPECT_TRUE(ParseLogFormat("json", &format).ok());
  EXPECT_EQ(format, LogFormat::kJson);
  EXPECT_FALSE(ParseLogFormat("xml", &format).ok());
}

TEST(LogTest, WrittenJsonLineBeginsWithItsTime) {
  ::testing::internal::CaptureStderr();
  SetUpLogging(LogLevel::kInfo, LogFormat::kJson, "test");
  Log(LogLevel::kInfo, "e", {{"n", 1}});
  const std::string written = ::testing::internal::GetCapturedStderr();
  SetUpLogging(LogLevel::kInfo, LogFormat::kText, "test");
  EXPECT_THAT(written,
              ::testing::MatchesRegex(
                  "\\{\"time\":\"[0-9]+-[0-9]+-[0-9]+T[0-9:]+\\.[0-9]+Z\","
                  "\"event\":\"e\",\"level\":\"info\",\"role\":\"test\","
                  "\"n\":1\\}\n"));
}

TEST(LogTest, LinesBelowTheLevelAreNotWritten) {
  ::testing::internal::CaptureStderr();
  SetUpLogging(LogLevel::kWarning, LogFormat::kText, "test");
  Log(LogLevel::kInfo, "quiet");
  Log(LogLevel::kError, "loud", {{"n", 1}});
  const std::string written = ::testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(written.find("quiet"), std::string::npos);
  EXPECT_NE(written.find("error test loud n=1"), std::string::npos) << written;
}

}  // namespace
}  // namespace evenstep
