// Every command against a coordinator in memory: what stands on stdout and
// stderr, and the exit code.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/app_fixture.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/job_views.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(AppTest, EveryCommandSaysThatNobodyAnswers) {
  fake_.FailWith(absl::UnavailableError("cannot reach the coordinator"));
  const std::vector<std::vector<std::string>> commands = {
      {"submit", job_file_}, {"list"},        {"describe", "a"},
      {"logs", "a"},         {"events", "a"}, {"cancel", "a"},
      {"wait", "a"},         {"health"},      {"version", "--server"}};
  for (const auto& command : commands) {
    EXPECT_EQ(Run(command), 3) << command[0];
    EXPECT_THAT(err(), StartsWith("evenstep: cannot reach the coordinator\n"))
        << command[0];
  }
}

TEST_F(AppTest, EveryCommandSaysThatThereIsNoSuchJob) {
  for (const char* command : {"describe", "logs", "events", "cancel", "wait"}) {
    EXPECT_EQ(Run({command, "nobody"}), 4) << command;
    EXPECT_THAT(err(), HasSubstr("nobody")) << command;
  }
}

TEST_F(AppTest, HelpHasEveryExitCodeOnce) {
  EXPECT_EQ(Run({"--help"}), 0);
  const std::string text = absl::StrReplaceAll(out(), {{"\n", " "}});
  int last = -1;
  for (const auto& [code, meaning] : ExitCodeTable()) {
    EXPECT_GT(code, last);
    last = code;
    EXPECT_THAT(text, HasSubstr(absl::StrCat(" ", static_cast<int>(code), " ",
                                             meaning)));
  }
}

// 4 is of jobs and 3 of coordinators: no command that has to do with neither
// ends with them.
TEST_F(AppTest, WhatIsWrongOnThisMachineHasItsOwnCodes) {
  const std::string none = folder_ + "/none";
  const std::string empty = folder_ + "/empty";
  std::filesystem::create_directories(empty);
  const std::string broken = folder_ + "/broken.safetensors";
  std::ofstream(broken) << std::string(16, '\1');
  const std::string bad = folder_ + "/bad.jsonl";
  std::ofstream(bad) << "{\n";
  const std::vector<std::pair<int, std::vector<std::string>>> commands = {
      {2, {"submit", none}},
      {2, {"local", none}},
      {2, {"local", "--data", "text:" + none}},
      {2, {"plan", "--lengths", none}},
      {2, {"plan", "--data", "text:" + none}},
      {2, {"profile", none}},
      {2, {"data", "inspect", none}},
      {2, {"data", "inspect", "text:" + none}},
      {2, {"data", "tokenize", "text:" + none, "--out", none}},
      {2, {"generate", none}},
      {2, {"generate", empty}},
      {5, {"generate", broken}},
      {5, {"data", "inspect", "text:" + bad}},
      {5, {"data", "tokenize", "text:" + bad, "--out", none}},
      {5,
       {"plan", "--lengths", "long", "--gpus", "1", "--tokens-per-gpu", "16",
        "--recompute", "fixed"}}};
  for (const auto& [code, command] : commands) {
    EXPECT_EQ(Run(command), code)
        << absl::StrJoin(command, " ") << ": " << err();
  }
}

TEST_F(AppTest, EveryCommandSaysThatItIsRefused) {
  fake_.FailWith(absl::PermissionDeniedError("not yours"));
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"submit", job_file_},
                                             {"list"},
                                             {"describe", "a"},
                                             {"logs", "a"},
                                             {"events", "a"},
                                             {"cancel", "a"},
                                             {"wait", "a"}}) {
    EXPECT_EQ(Run(command), 5) << command[0];
  }
}

TEST_F(AppTest, ListShowsJobsNewestFirst) {
  Job job = FullJob();
  fake_.PutJob(job);
  job.id = "books-2";
  job.state = JobState::kFailed;
  fake_.PutJob(job);
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_EQ(out(), Golden("list.txt", out()));
  EXPECT_EQ(Run({"list", "-o", "wide"}), 0);
  EXPECT_EQ(out(), Golden("list_wide.txt", out()));
  EXPECT_EQ(Run({"list", "--state", "failed"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("books-1")));
}

TEST_F(AppTest, ListReadsAllPagesUpToItsLimit) {
  for (int i = 0; i < 25; ++i) {
    Job job = FullJob();
    job.id = absl::StrCat("job-", i);
    fake_.PutJob(job);
  }
  EXPECT_EQ(Run({"list", "-o", "json", "--limit", "7"}), 0);
  EXPECT_EQ(Json::parse(out())["jobs"].size(), 7u);
  EXPECT_EQ(Json::parse(out())["num_jobs"], 25);
}

TEST_F(AppTest, ListSaysThatThereAreMore) {
  Job job = FullJob();
  for (int i = 0; i < 1200; ++i) {
    job.id = absl::StrCat("job-", i);
    fake_.PutJob(job);
  }
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_THAT(err(), HasSubstr("100 of 1,200 jobs, the newest; --limit"));
  EXPECT_THAT(out(), Not(HasSubstr("--limit"))) << "it is no row";
  EXPECT_EQ(Run({"list", "--limit", "1200"}), 0);
  EXPECT_THAT(err(), Not(HasSubstr("--limit")));
  EXPECT_EQ(Run({"list", "--state", "failed"}), 0);
  EXPECT_THAT(err(), HasSubstr("No jobs."));
}

TEST_F(AppTest, AnUnknownStateIsAUsageErrorWithASuggestion) {
  EXPECT_EQ(Run({"list", "--state", "RUNING"}), 2);
  EXPECT_THAT(err(), HasSubstr("RUNNING"));
}

TEST_F(AppTest, JsonIsAContract) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"describe", "books-1", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("describe.json", out()));
  EXPECT_EQ(Run({"list", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("list.json", out()));
  EXPECT_EQ(Run({"health", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("health.json", out()));
}

TEST_F(AppTest, YamlHasTheSameKeys) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"describe", "books-1", "-o", "yaml"}), 0);
  EXPECT_EQ(out(), Golden("describe.yaml", out()));
  const std::string yaml = out();
  EXPECT_EQ(Run({"describe", "books-1", "-o", "json"}), 0);
  EXPECT_EQ(YamlToJson(yaml), Json::parse(out()));
}

TEST_F(AppTest, DescribeIsReadable) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"describe", "books-1"}), 0);
  EXPECT_EQ(out(), Golden("describe.txt", out()));
}

TEST_F(AppTest, AJobOnAnEmulatedLinkIsLabelled) {
  client::Job job = FullJob();
  job.emulated_link = "EMULATED link: 2 ranks a node";
  fake_.PutJob(job);
  EXPECT_EQ(Run({"describe", "books-1"}), 0);
  EXPECT_THAT(out(), HasSubstr("Link:          EMULATED link: 2 ranks a node"));
  EXPECT_EQ(Run({"describe", "books-1", "-o", "json"}), 0);
  EXPECT_EQ(Json::parse(out())["emulated_link"],
            "EMULATED link: 2 ranks a node");
}

TEST_F(AppTest, HealthAndVersionAnswer) {
  EXPECT_EQ(Run({"health", "--coordinator", "somewhere:1"}), 0);
  EXPECT_EQ(out(), "somewhere:1  SERVING\n");
  EXPECT_EQ(coordinator_, "somewhere:1");
  EXPECT_EQ(Run({"version", "--server"}), 0);
  EXPECT_THAT(out(), HasSubstr("coordinator 0.0.0-fake"));
}

TEST_F(AppTest, TheCoordinatorMayComeFromTheEnvironment) {
  setenv("EVENSTEP_COORDINATOR", "elsewhere:2", 1);
  EXPECT_EQ(Run({"health"}), 0);
  EXPECT_EQ(coordinator_, "elsewhere:2");
  EXPECT_EQ(Run({"--coordinator=here:3", "health"}), 0);
  EXPECT_EQ(coordinator_, "here:3");
  unsetenv("EVENSTEP_COORDINATOR");
}

TEST_F(AppTest, AWrongWordIsExplained) {
  EXPECT_EQ(Run({"submti"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown command 'submti'; did you mean "
                               "'submit'?"));
  EXPECT_EQ(Run({"list", "--stat=x"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown option '--stat'; did you mean "
                               "'--state'?"));
  EXPECT_EQ(Run({"describe"}), 2);
  EXPECT_EQ(Run({"list", "-o", "xml"}), 2);
  EXPECT_EQ(Run({"wait", "x", "--timeout", "soon"}), 2);
  EXPECT_EQ(Run({}), 2);
}

TEST_F(AppTest, EveryCommandHasHelp) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out(), HasSubstr("Exit codes:"));
  for (const char* command : {"submit", "list", "describe", "logs", "events",
                              "cancel", "wait", "health", "version", "local"}) {
    EXPECT_EQ(Run({command, "--help"}), 0) << command;
    EXPECT_THAT(out(), HasSubstr(absl::StrCat("evenstep ", command)));
    EXPECT_THAT(err(), IsEmpty());
  }
}

TEST_F(AppTest, OneMeansOnlyThatTheJobFailed) {
  fake_.PutJob(FullJob());
  for (const auto& [code, exit] : {std::pair(absl::StatusCode::kInternal, 6),
                                   {absl::StatusCode::kUnknown, 6},
                                   {absl::StatusCode::kDataLoss, 6},
                                   {absl::StatusCode::kAborted, 3},
                                   {absl::StatusCode::kUnimplemented, 3},
                                   {absl::StatusCode::kDeadlineExceeded, 3}}) {
    fake_.FailWith(absl::Status(code, "no"));
    EXPECT_EQ(Run({"describe", "books-1"}), exit) << static_cast<int>(code);
    EXPECT_EQ(Run({"version", "--server"}), exit) << static_cast<int>(code);
  }
}

TEST_F(AppTest, TextThatIsNotUtf8IsAUsageError) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"cancel", "books-1", "--message=\xff"}), 2);
  EXPECT_THAT(err(), HasSubstr("not UTF-8"));
  EXPECT_EQ(fake_.Get("books-1")->state, JobState::kRunning);
  EXPECT_EQ(Run({"describe", "\xff"}), 2);
  EXPECT_THAT(err(), HasSubstr("not UTF-8"));
  EXPECT_EQ(Run({"submit", job_file_, "--name", "\xff"}), 2);
  EXPECT_THAT(err(), HasSubstr("not UTF-8"));
  EXPECT_EQ(Run({"submit", job_file_, "--set", "data.source=text:/\xff"}), 2);
  EXPECT_THAT(err(), HasSubstr("not UTF-8"));
}

TEST_F(AppTest, TheVersionIsAnOptionToo) {
  EXPECT_EQ(Run({"version"}), 0);
  const std::string version = out();
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out(), version);
}

TEST_F(AppTest, ACoordinatorWithoutAPortIsAUsageError) {
  for (const char* address : {"foo", "foo:", ":7070", "foo:0", "foo:x"}) {
    EXPECT_EQ(Run({"list", "--coordinator", address}), 2) << address;
    EXPECT_THAT(err(), HasSubstr("HOST:PORT")) << address;
  }
}

TEST_F(AppTest, HelpNamesEveryPolicy) {
  EXPECT_EQ(Run({"local", "--help"}), 0);
  for (const char* policy : {"static", "bucket", "packed", "dcp-inter",
                             "dcp-intra", "balanced", "even"}) {
    EXPECT_THAT(out(), HasSubstr(policy));
  }
}

TEST(FormatDataTest, IndexingIsShownWhileItLasts) {
  client::DataSummary data;
  data.indexed_bytes = 5'050'000'000;
  data.bytes_to_index = 12'300'000'000;
  EXPECT_EQ(FormatData(data), "indexing: 41% of 12.3 GB");
}

TEST(FormatDataTest, WhatIsLeftOutOfEitherSourceIsCounted) {
  client::DataSummary data;
  data.num_samples = 7;
  data.num_bad = 1;
  data.evaluation_samples = 5;
  data.evaluation_too_long = 4;
  data.evaluation_bad = 3;
  data.evaluation_untrained = 2;
  const std::string text = FormatData(data);
  data.evaluation_tokens = 90;
  EXPECT_EQ(FormatData(data),
            "7 documents, 0 tokens, longest 0; 1 skipped as bad; "
            "5 more for evaluation, 90 tokens (4 skipped as too "
            "long; 3 skipped as bad; 2 without a loss)");
  data.num_hidden_files = 2;
  data.num_own_files = 1;
  data.num_json_files = 3;
  EXPECT_THAT(FormatData(data),
              HasSubstr("bad; left out: 2 hidden entries, 1 entry of an "
                        "earlier run, 3 JSON files without records; 5 more "
                        "for evaluation"));
  data.num_hidden_files = data.num_own_files = data.num_json_files = 0;
  data.num_bad = data.evaluation_bad = data.evaluation_untrained = 0;
  data.evaluation_too_long = 0;
  EXPECT_EQ(FormatData(data),
            "7 documents, 0 tokens, longest 0; 5 more for evaluation, 90 "
            "tokens");
}

TEST_F(AppTest, WarningsStandBelowTheDataInLinesOfTheirOwn) {
  client::DataSummary data;
  data.num_samples = 3;
  data.warnings = {"a step draws 16 samples", "no\x1bhead"};
  EXPECT_EQ(FormatDataAndWarnings(data),
            "Data: 3 documents, 0 tokens, longest 0\nWarning: a step draws 16 "
            "samples\nWarning: no\\x1bhead");
}

}  // namespace
}  // namespace evenstep::cli
