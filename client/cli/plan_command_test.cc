// `evenstep plan` as it is typed: no coordinator anywhere.

#include "client/cli/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "client/cli/app.h"
#include "nlohmann/json.hpp"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

Answer Type(std::vector<std::string> arguments, const std::string& input = "") {
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in(input);
  Environment environment(out, err);
  environment.in = &in;
  arguments.insert(arguments.begin(), "plan");
  const int code = RunCli(arguments, environment);
  return {code, out.str(), err.str()};
}

TEST(PlanCommandTest, ATableComparesAllPolicies) {
  const Answer answer =
      Type({"--lengths", "wikipedia", "--gpus", "8", "--samples", "64"});
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(answer.err, IsEmpty());
  EXPECT_THAT(answer.out, HasSubstr("law wikipedia, seed 1: 64 samples"));
  EXPECT_THAT(answer.out, HasSubstr("lower bound "));
  EXPECT_THAT(answer.out, HasSubstr("vs best"));
  for (const char* policy : {"\neven ", "\nstatic ", "\ndcp-intra "}) {
    EXPECT_THAT(answer.out, HasSubstr(policy));
  }
}

TEST(PlanCommandTest, JsonIsTheSameForAnyNumberOfThreads) {
  auto json = [](const std::string& threads) {
    const Answer answer = Type(
        {"--lengths", "-", "--gpus", "4", "--threads", threads, "-o", "json"},
        "100\n2000\n30\n");
    EXPECT_EQ(answer.code, kExitOk) << answer.err;
    auto parsed = nlohmann::ordered_json::parse(answer.out);
    for (auto& policy : parsed["policies"]) policy.erase("planning_seconds");
    return parsed;
  };
  const auto one = json("1");
  EXPECT_EQ(one["request"]["lengths"], "standard input");
  EXPECT_EQ(one["policies"].size(), 8u);
  EXPECT_EQ(one, json("5"));
}

TEST(PlanCommandTest, ThePlanIsShownWhenAskedFor) {
  const Answer answer =
      Type({"--lengths", "-", "--gpus", "2", "--policy", "even", "--show-plan"},
           "100\n2000\n");
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("tokens/rank"));
  EXPECT_THAT(answer.out, Not(HasSubstr("static")));
}

TEST(PlanCommandTest, NoPlanIsRefusedWithWhatWouldMakeOne) {
  const Answer answer = Type({"--lengths", "-", "--gpus", "2",
                              "--tokens-per-gpu", "10", "--recompute", "fixed"},
                             "21\n");
  EXPECT_EQ(answer.code, kExitRefused);
  EXPECT_THAT(answer.out, HasSubstr("no plan: sample 0 has 21 tokens"));
  EXPECT_THAT(answer.out, HasSubstr("It fits with"));
  const Answer fits = Type({"--lengths", "-", "--gpus", "2", "--tokens-per-gpu",
                            "10", "--recompute", "fixed"},
                           "20\n");
  EXPECT_EQ(fits.code, kExitOk);
}

TEST(PlanCommandTest, UnequalNodesRoundsAndContiguousBlocksAreUnderstood) {
  const Answer answer =
      Type({"--lengths", "wikipedia", "--samples", "64", "--gpus-per-node",
            "7,8", "--sync", "per_round", "--blocks", "contiguous", "--policy",
            "even", "--degrees", "1,2,3,4,5,6,7,8"});
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("15 GPUs on nodes of 7, 8"));
  EXPECT_THAT(answer.out, HasSubstr("per_round, contiguous blocks"));
}

TEST(PlanCommandTest, SimulationFlagsRunTheSimulator) {
  const std::vector<std::string> plain = {"--lengths", "wikipedia", "--gpus",
                                          "8",         "--samples", "64"};
  EXPECT_THAT(Type(plain).out, Not(HasSubstr("simulated")));
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{
           {"--simulate"},
           {"--simulate-noise", "0.02"},
           {"--simulate-rank-noise", "0.02"},
           {"--simulate-slow", "3=1.25", "--simulate-slow", "4=1.5"},
           {"--simulate-cost-error", "0.1"},
           {"--simulate-slow-network", "2"},
           {"--simulate-costs", "h200-1.2b-1d"}}) {
    auto arguments = plain;
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Answer answer = Type(arguments);
    EXPECT_EQ(answer.code, kExitOk) << answer.err;
    EXPECT_THAT(answer.out, HasSubstr("simulated s")) << flags[0];
  }
}

TEST(PlanCommandTest, TheReportIsWrittenWhereAskedFor) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("plan_report." + std::to_string(getpid()) + ".html"))
          .string();
  const Answer answer =
      Type({"--lengths", "wikipedia", "--samples", "32", "--report", path});
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(answer.err, HasSubstr("Report: " + path));
  EXPECT_GT(std::filesystem::file_size(path), 10000u);
  std::filesystem::remove(path);
  const Answer lost = Type({"--lengths", "wikipedia", "--samples", "32",
                            "--report", "/no/such/folder/plan.html"});
  EXPECT_NE(lost.code, kExitOk);
  EXPECT_THAT(lost.err, HasSubstr("/no/such/folder"));
}

TEST(PlanCommandTest, WrongWordsAreUsageErrors) {
  const std::vector<std::string> base = {"--lengths", "wikipedia", "--samples",
                                         "8"};
  struct Case {
    std::vector<std::string> flags;
    std::string message;
  };
  for (const Case& wrong : std::vector<Case>{
           {{"--policy", "evn"}, "unknown policy 'evn'"},
           {{"--costs", "h100"}, "h200-5b-1d"},
           {{"--sync", "weekly"}, "--sync"},
           {{"--gpus", "many"}, "--gpus"},
           {{"--gpus", "-3"}, "-3 GPUs"},
           {{"--gpus", "0"}, "0 GPUs; at least 1"},
           {{"--samples", "0"}, "0 samples; at least 1"},
           {{"--work-budget", "0"}, "0 trials; at least 1"},
           {{"--tokens-per-gpu", "0"}, "0 tokens per GPU; at least 1"},
           {{"--max-length", "0"}, "0 tokens; at least 1"},
           {{"--max-groups-per-rank", "0"}, "0 groups; at least 1"},
           {{"--simulate-costs", "h200-1.2b-2d"},
            "h200-1.2b-2d are of a video model; the step is planned for a text "
            "model"},
           {{"--gpus-per-node", "7,x"}, "--gpus-per-node"},
           {{"--gpus", "16", "--gpus-per-node", "7,8"}, "= 15 GPUs, not 16"},
           {{"--data", "text:."}, "not both"},
           {{"--threads", "0"}, "0 threads"},
           {{"--simulate-noise", "-1"}, "layer_noise"},
           {{"--simulate-slow", "3"}, "RANK=NUMBER"},
           {{"--simulate-slow", "99=2"}, "the ranks are 0 to 7"},
           {{"--simulate-slow", "1=0.5"}, "0.5"},
           {{"--rank-speed", "1=nan"}, "RANK=NUMBER"},
           {{"--micro-batch-fixed-ms", "-2"}, "--micro-batch-fixed-ms"},
           {{"--lenghts", "x"}, "did you mean '--lengths'?"}}) {
    auto arguments = base;
    arguments.insert(arguments.end(), wrong.flags.begin(), wrong.flags.end());
    const Answer answer = Type(arguments);
    EXPECT_EQ(answer.code, kExitUsage) << wrong.flags[0];
    EXPECT_THAT(answer.err, HasSubstr(wrong.message));
    EXPECT_THAT(answer.out, IsEmpty());
  }
  EXPECT_EQ(Type({}).code, kExitUsage);
  EXPECT_EQ(Type({"--lengths", "/no/such/lengths"}).code, kExitUsage);
}

}  // namespace
}  // namespace evenstep::cli
