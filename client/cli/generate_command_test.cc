#include "client/cli/generate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(PrintableTextTest, NothingReachesATerminalButTextTabsAndLineEnds) {
  EXPECT_EQ(PrintableText("int\tmain\n"), "int\tmain\n");
  EXPECT_EQ(PrintableText("na\xc3\xafve"), "na\xc3\xafve");
  EXPECT_EQ(PrintableText("\x1b[2J\r\x07\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(PrintableText(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(PrintableText("\xff\xc3"), "??");
}

TEST(GenerateCommandTest, WeightsThatAreNotThereAreNamed) {
  std::ostringstream out;
  std::ostringstream err;
  Environment environment(out, err);
  GenerateCommand command;
  command.weights = "/nonexistent/model.safetensors";
  EXPECT_NE(Generate(environment, GlobalOptions(), command), kExitOk);
  EXPECT_THAT(err.str(), HasSubstr("no such weights file: /nonexistent"));
}

}  // namespace
}  // namespace evenstep::cli
