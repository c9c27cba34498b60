// `evenstep plan` as it is typed: no coordinator anywhere.

#include "client/cli/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/output_marker.h"
#include "base/testing/temp_folder.h"
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

TEST(PlanCommandTest, ClipsArePlannedWithCostsOfVideo) {
  const Answer answer =
      Type({"--lengths", "-", "--gpus", "4"}, "16x8x8\n1x16x16\n");
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("h200-5b-2d"));
  const Answer text = Type(
      {"--lengths", "-", "--gpus", "4", "--costs", "h200-5b-1d"}, "16x8x8\n");
  EXPECT_EQ(text.code, kExitUsage);
  EXPECT_THAT(text.err, HasSubstr("--costs h200-5b-1d are of a text model"));
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

TEST(PlanCommandTest, WhatWasSetStandsInTheAnswer) {
  std::vector<std::string> arguments = {"--lengths",
                                        "-",
                                        "--gpus",
                                        "2",
                                        "--tokens-per-gpu",
                                        "9000",
                                        "--rank-speed",
                                        "1=0.9",
                                        "--simulate",
                                        "--simulate-noise",
                                        "0.02"};
  EXPECT_THAT(Type(arguments, "100\n2000\n").out,
              HasSubstr("\nwith --rank-speed 1=0.9, --tokens-per-gpu 9000, "
                        "--simulate, --simulate-noise 0.02\n"));
  arguments.insert(arguments.end(), {"-o", "json"});
  const auto json = nlohmann::json::parse(Type(arguments, "100\n2000\n").out);
  const auto& settings = json["request"]["settings"];
  EXPECT_EQ(settings["tokens-per-gpu"], "9000");
  EXPECT_EQ(settings["simulate-noise"], "0.02");
  EXPECT_EQ(settings.size(), 4u);
}

TEST(PlanCommandTest, ElasticBatchesAreDrawnAndTheRestIsShown) {
  const std::vector<std::string> arguments = {
      "--lengths", "wikipedia", "--gpus", "8", "--batch", "elastic"};
  const Answer table = Type(arguments);
  EXPECT_EQ(table.code, kExitOk) << table.err;
  EXPECT_THAT(table.out, HasSubstr("leaves the rest to later steps"));
  EXPECT_THAT(table.out, HasSubstr("left"));
  EXPECT_THAT(table.out, Not(HasSubstr("\neven ")));
  auto json_arguments = arguments;
  json_arguments.insert(json_arguments.end(), {"-o", "json"});
  const auto json = nlohmann::json::parse(Type(json_arguments).out);
  ASSERT_EQ(json["policies"].size(), 4u);
  for (const auto& run : json["policies"]) {
    std::vector<int> seen(512, 0);
    for (const auto& batch : run["plan"]["micro_batches"]) {
      for (int sample : batch["samples"]) ++seen[sample];
    }
    for (int sample : run["batch"]["left_samples"]) ++seen[sample];
    EXPECT_EQ(seen, std::vector<int>(512, 1)) << run["policy"];
    if (run["policy"] != "packed") {
      EXPECT_FALSE(run["batch"]["left_samples"].empty());
    }
  }
}

TEST(PlanCommandTest, AModelThatNothingCanShareIsSaidToBeOne) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("plan_heads." + std::to_string(getpid()) + ".yaml"))
          .string();
  std::ofstream(path) << "model: {num_layers: 4, width: 250, heads: 25}\n"
                         "time: {micro_batch_fixed_ns: 0, linear_ns_per_token: "
                         "1000, quadratic_ns_per_token2: 0}\n"
                         "memory: {tokens_per_rank: 4096}\n";
  const Answer answer =
      Type({"--lengths", "-", "--gpus", "4", "--costs", path}, "100\n");
  std::filesystem::remove(path);
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(answer.err, HasSubstr("the model's 25 heads (25 of K and V)"));
}

TEST(PlanCommandTest, DataSpeaksInTheAnswersOwnWords) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("plan_data." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "a.txt") << "some text of a document\n";
  ::testing::internal::CaptureStderr();  // where a service would log
  const Answer answer = Type({"--data", "text:" + folder.string(), "--samples",
                              "2", "--gpus", "1", "--policy", "even"});
  const std::string logged = ::testing::internal::GetCapturedStderr();
  std::filesystem::remove_all(folder);
  EXPECT_EQ(answer.code, kExitOk) << answer.err;
  EXPECT_THAT(logged, IsEmpty());
  EXPECT_THAT(answer.err, IsEmpty());
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
  EXPECT_THAT(answer.out,
              HasSubstr("It fits with room on a rank for 11 tokens, or at "
                        "degree 4 on 4 ranks\n"));
  // With recompute the room is of the mode that holds most.
  const Answer chosen = Type(
      {"--lengths", "-", "--gpus", "1", "--tokens-per-gpu", "100"}, "100000\n");
  EXPECT_EQ(chosen.code, kExitRefused);
  EXPECT_THAT(chosen.out, HasSubstr("layers recomputed"));
  // And what is asked for is what it takes.
  std::smatch room;
  ASSERT_TRUE(std::regex_search(
      chosen.out, room, std::regex("\\(([0-9]+) with nothing recomputed\\)")));
  auto code_with = [](int64_t tokens) {
    return Type({"--lengths", "-", "--gpus", "1", "--tokens-per-gpu",
                 std::to_string(tokens)},
                "100000\n")
        .code;
  };
  EXPECT_EQ(code_with(std::stoll(room[1])), kExitOk);
  EXPECT_EQ(code_with(std::stoll(room[1]) - 1), kExitRefused);
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
           {"--simulate-noise", "0.0"},
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
    EXPECT_THAT(answer.out, HasSubstr("\nwith " + flags[0]));
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
}

TEST(PlanCommandTest, AReportReplacesOnlyAReport) {
  const TempFolder folder;
  const std::string note = folder.path() + "/todo.md";
  std::ofstream(note) << "mine";
  const std::vector<std::string> words = {"--lengths", "wikipedia", "--samples",
                                          "8", "--report"};
  const auto report = [&](const std::string& path) {
    std::vector<std::string> with = words;
    with.push_back(path);
    return Type(with);
  };
  const Answer refused = report(note);
  EXPECT_EQ(refused.code, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr(folder.path() +
                                     " holds todo.md, which no earlier run "
                                     "wrote there and this one would replace; "
                                     "choose another --report"));
  EXPECT_EQ(std::filesystem::file_size(note), 4u);
  EXPECT_FALSE(ReadOutputMarks(folder.path()).Has("todo.md"));
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(report(folder.path() + "/plan.html").code, kExitOk);
  }
  const std::string empty = folder.path() + "/empty.html";
  std::ofstream(empty).flush();
  EXPECT_EQ(report(empty).code, kExitOk) << "nothing is lost";
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
           {{"--gpus-per-node", "7,,8"},
            "--gpus-per-node: '7,,8' is not whole numbers"},
           {{"--degrees", "2,"}, "--degrees: '2,' is not whole numbers"},
           {{"--rank-speed", "5=0.8", "--rank-speed", "5=0.9"},
            "--rank-speed: rank 5 is named twice"},
           {{"--gpus", "1.5"}, "--gpus: '1.5' is not a whole number"},
           {{"--threads", "x"}, "--threads: 'x' is not a number"},
           {{"--report"}, "--report: its value is missing"},
           {{"--report", "/proc/plan.html"}, "/proc/plan.html: it cannot be"},
           {{"--work-budget", "99999999999999999999"},
            "is not a whole number of 64 bits"},
           {{"--gpus", "16", "--gpus-per-node", "7,8"}, "= 15 GPUs, not 16"},
           {{"--data", "text:."}, "not both"},
           {{"--threads", "0"}, "0 threads"},
           {{"--patch", "2"}, "a patch of 2 is of latents:"},
           {{"--simulate-noise", "-1"}, "--simulate-noise is -1"},
           {{"--simulate-slow-network", "0.5"}, "--simulate-slow-network is"},
           {{"--seed", "-1"}, "'-1' is not a whole number from 0"},
           {{"--seed", "18446744073709551616"}, "from 0 to 2^64 - 1"},
           {{"--recompute-layers", "3"}, "goes with --recompute fixed"},
           {{"--degrees", "3"}, "--degrees lists 3; with aligned blocks"},
           {{"--degrees", "1,16"}, "--degrees lists 16; the GPUs are 8"},
           {{"--max-length", "100"}, "more than --max-length of 100"},
           {{"--rank-speed", "1=0"}, "--rank-speed of rank 1"},
           {{"--report", "/no/such/folder/plan.html"},
            "there is no folder /no/such/folder"},
           {{"--report", "/tmp"}, "is a folder"},
           // Opened at all, a device or a link would be replaced.
           {{"--report", "/dev/null"}, "is not a regular file"},
           {{"--report", "/proc/self/exe"}, "is not a regular file"},
           {{"--batch", "elastic", "--policy", "even"},
            "'even' takes the batch as it is"},
           {{"--batch", "floating"}, "--batch"},
           {{"--simulate-slow", "3"}, "RANK=NUMBER"},
           {{"--simulate-slow", "99=2"}, "the ranks are 0 to 7"},
           {{"--simulate-slow", "1=0.5"}, "--simulate-slow[1] is 0.5"},
           {{"--rank-speed", "9=1"}, "--rank-speed names rank 9"},
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
  const Answer law = Type({"--lengths", "wikipeda"});
  EXPECT_EQ(law.code, kExitUsage);
  EXPECT_THAT(law.err, HasSubstr("did you mean 'wikipedia'? known: short, "
                                 "balanced, long, wikipedia, lognormal"));
  const Answer data = Type({"--data", "/tmp/books"});
  EXPECT_EQ(data.code, kExitUsage);
  EXPECT_THAT(data.err, HasSubstr("files of text are 'text:/tmp/books'"));
  EXPECT_EQ(Type({"--data", "text:/no/such/folder"}).code, kExitUsage);
}

}  // namespace
}  // namespace evenstep::cli
