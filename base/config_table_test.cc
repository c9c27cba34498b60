#include "base/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"

namespace evenstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Sets a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

struct Options {
  std::string listen = "127.0.0.1:0";
  int slots = 1;
  absl::Duration lease = absl::Seconds(5);
  bool quiet = false;
  double share = 0.5;
  LogLevel level = LogLevel::kInfo;
};

class ConfigTableTest : public ::testing::Test {
 protected:
  ConfigTableTest() : table_("evenstep-test", "Tests.") {
    table_.Add("listen", "EVENSTEP_TEST_LISTEN", &options_.listen, "host:port");
    table_.Add("slots", "EVENSTEP_TEST_SLOTS", &options_.slots, "ranks");
    table_.Add("lease-time", "EVENSTEP_TEST_LEASE", &options_.lease, "lease");
    table_.Add("quiet", "EVENSTEP_TEST_QUIET", &options_.quiet, "say less");
    table_.Add("share", "EVENSTEP_TEST_SHARE", &options_.share, "share");
    table_.Add("log-level", "EVENSTEP_TEST_LEVEL", &options_.level, "level");
    table_.AddCheck([this]() -> absl::Status {
      if (options_.slots >= 1) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("slots is ", options_.slots, "; at least 1"));
    });
  }

  ConfigTable::ParseResult Parse(std::vector<std::string> arguments) {
    std::vector<const char*> argv = {"evenstep-test"};
    for (const std::string& argument : arguments) {
      argv.push_back(argument.c_str());
    }
    return table_.Parse(static_cast<int>(argv.size()), argv.data());
  }

  std::string WriteFile(const std::string& text) {
    const std::string path = folder_.path() + "/config.yaml";
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }

  TempFolder folder_;
  Options options_;
  ConfigTable table_;
};

TEST_F(ConfigTableTest, NothingGivenLeavesDefaultsAndRuns) {
  const auto result = Parse({});
  EXPECT_EQ(result.action, ConfigTable::Action::kRun);
  EXPECT_EQ(options_.listen, "127.0.0.1:0");
  EXPECT_THAT(table_.FormatEffective(), HasSubstr("slots: 1  # default"));
}

TEST_F(ConfigTableTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string file =
      WriteFile("listen: file\nslots: 2\nlease_time: 7s\n");
  ScopedVariable listen("EVENSTEP_TEST_LISTEN", "environment");
  ScopedVariable slots("EVENSTEP_TEST_SLOTS", "3");
  const auto result = Parse({"--config", file, "--listen", "flag"});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(options_.listen, "flag");
  EXPECT_EQ(options_.slots, 3);
  EXPECT_EQ(options_.lease, absl::Seconds(7));
  EXPECT_EQ(options_.share, 0.5);
  EXPECT_THAT(table_.FormatEffective(),
              AllOf(HasSubstr("listen: flag  # flag"),
                    HasSubstr("slots: 3  # environment"),
                    HasSubstr("lease_time: 7s  # file"),
                    HasSubstr("share: 0.5  # default")));
}

TEST_F(ConfigTableTest, FileCanBeNamedByTheEnvironmentAndFlagWins) {
  const std::string file = WriteFile("slots: 4\n");
  ScopedVariable config("EVENSTEP_CONFIG", file);
  ASSERT_TRUE(Parse({}).status.ok());
  EXPECT_EQ(options_.slots, 4);
  EXPECT_THAT(Parse({"--config", "/nowhere.yaml"}).status.ToString(),
              HasSubstr("/nowhere.yaml"));
}

TEST_F(ConfigTableTest, UnknownKeyIsAnErrorWithItsLineAndTheNearestName) {
  const std::string file = WriteFile("slots: 2\n\nlisen: here\n");
  const auto result = Parse({"--config", file});
  EXPECT_THAT(std::string(result.status.message()),
              AllOf(StartsWith(absl::StrCat(file, ":3: unknown key 'lisen'")),
                    HasSubstr("did you mean 'listen'"), HasSubstr("slots")));
}

TEST_F(ConfigTableTest, WrongValueNamesWhereItStands) {
  const std::string file = WriteFile("# note\nslots: many\n");
  EXPECT_THAT(Parse({"--config", file}).status.ToString(),
              HasSubstr(absl::StrCat(file, ":2: slots: 'many' is not")));
  EXPECT_THAT(Parse({"--slots", "x"}).status.ToString(),
              HasSubstr("--slots: 'x' is not"));
  ScopedVariable lease("EVENSTEP_TEST_LEASE", "-5s");
  EXPECT_THAT(Parse({}).status.ToString(),
              HasSubstr("EVENSTEP_TEST_LEASE: '-5s' is not a duration"));
}

TEST_F(ConfigTableTest, MapForAValueIsRefused) {
  const std::string file = WriteFile("slots:\n  a: 1\n");
  EXPECT_THAT(Parse({"--config", file}).status.ToString(),
              HasSubstr("slots: expected a single value"));
}

TEST_F(ConfigTableTest, SameKeyTwiceIsRefused) {
  const std::string file = WriteFile("slots: 1\nslots: 2\n");
  EXPECT_THAT(Parse({"--config", file}).status.ToString(),
              AllOf(HasSubstr(":2:"), HasSubstr("twice")));
}

TEST_F(ConfigTableTest, SwitchIsSetClearedAndGivenAValue) {
  ASSERT_TRUE(Parse({"--quiet"}).status.ok());
  EXPECT_TRUE(options_.quiet);
  ASSERT_TRUE(Parse({"--no-quiet"}).status.ok());
  EXPECT_FALSE(options_.quiet);
  ASSERT_TRUE(Parse({"--quiet=true"}).status.ok());
  EXPECT_TRUE(options_.quiet);
  ASSERT_TRUE(Parse({"--quiet=false"}).status.ok());
  EXPECT_FALSE(options_.quiet);
}

TEST_F(ConfigTableTest, UnknownFlagAndStrayArgumentAreUsageErrors) {
  EXPECT_THAT(Parse({"--lisen", "x"}).status.ToString(), HasSubstr("--lisen"));
  EXPECT_THAT(Parse({"stray"}).status.ToString(), HasSubstr("stray"));
  EXPECT_FALSE(Parse({"--listen"}).status.ok());
  EXPECT_EQ(Parse({"stray"}).action, ConfigTable::Action::kExit);
}

TEST_F(ConfigTableTest, ChecksRunOnFinishedValues) {
  EXPECT_THAT(Parse({"--slots", "0"}).status.ToString(),
              HasSubstr("slots is 0; at least 1"));
}

TEST_F(ConfigTableTest, CheckConfigPrintsValuesAndRefusesBadOnes) {
  const auto good = Parse({"--check-config", "--slots", "3"});
  EXPECT_EQ(good.action, ConfigTable::Action::kExit);
  EXPECT_TRUE(good.status.ok());
  EXPECT_THAT(good.output, AllOf(HasSubstr("slots: 3  # flag"),
                                 HasSubstr("configuration is valid")));
  EXPECT_FALSE(Parse({"--check-config", "--slots", "0"}).status.ok());
}

TEST_F(ConfigTableTest, VersionAndHelpExitWithoutReadingTheFile) {
  const auto version = Parse({"--version", "--config", "/nowhere.yaml"});
  EXPECT_TRUE(version.status.ok());
  EXPECT_THAT(version.output, StartsWith("evenstep-test 0."));
  const auto help = Parse({"--help"});
  EXPECT_TRUE(help.status.ok());
  EXPECT_THAT(help.output, AllOf(HasSubstr("--lease-time"), HasSubstr("5s"),
                                 HasSubstr("EVENSTEP_TEST_LEASE")));
}

TEST_F(ConfigTableTest, EmptyFileAndEffectiveOutputAreConfigurationFiles) {
  ASSERT_TRUE(Parse({"--config", WriteFile("")}).status.ok());
  ASSERT_TRUE(Parse({"--slots", "9", "--listen", "a b"}).status.ok());
  const std::string file = WriteFile(table_.FormatEffective());
  options_ = {};
  ASSERT_TRUE(Parse({"--config", file}).status.ok());
  EXPECT_EQ(options_.slots, 9);
  EXPECT_EQ(options_.listen, "a b");
}

TEST_F(ConfigTableTest, ReferenceListsEverySettingWithItsNames) {
  EXPECT_THAT(table_.FormatReference(),
              HasSubstr("| `--lease-time` | `EVENSTEP_TEST_LEASE` | "
                        "`lease_time` | duration | `5s` | lease |"));
}

}  // namespace
}  // namespace evenstep
