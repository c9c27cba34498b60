#include "client/cli/show/printable_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cli/show/job_views.h"
#include "client/cli/show/table.h"

namespace evenstep::cli {
namespace {

TEST(PrintableTextTest, NothingReachesATerminalButTextTabsAndLineEnds) {
  EXPECT_EQ(PrintableText("int\tmain\n"), "int\tmain\n");
  EXPECT_EQ(PrintableText("na\xc3\xafve"), "na\xc3\xafve");
  EXPECT_EQ(PrintableText("\x1b[2J\r\x07\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(PrintableText(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(PrintableText("\xff\xc3"), "??");
  EXPECT_EQ(PrintableText(""), "");
}

TEST(PrintableTextTest, ControlCharactersOfTwoBytesAreWrittenOut) {
  EXPECT_EQ(PrintableText("\xc2\x9b"
                          "2J"),
            "\\u009b2J");
  EXPECT_EQ(PrintableText("\xc2\x80\xc2\x9f"), "\\u0080\\u009f");
  EXPECT_EQ(PrintableText("\xc2\xa0\xc2\xbf"), "\xc2\xa0\xc2\xbf");
}

TEST(PrintableTextTest, TextDoesNotTurnItsDirection) {
  EXPECT_EQ(PrintableText("a\xe2\x80\xae"
                          "b"),
            "a\\u202eb");
  EXPECT_EQ(PrintableText("\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9"),
            "\\u202a\\u2066\\u2069");
  EXPECT_EQ(PrintableText("\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5"),
            "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5");
}

TEST(PrintableTextTest, TablesAndEventsAreMadePrintable) {
  EXPECT_EQ(FormatTable({{"a\x1b", "b"}}, ColourMode::kPlain), "a\\x1b  b\n");
  client::JobEvent event;
  event.message = "tensor '\x1b[2J'";
  EXPECT_THAT(FormatEvent(event, ColourMode::kPlain),
              testing::EndsWith("tensor '\\x1b[2J'"));
}

}  // namespace
}  // namespace evenstep::cli
