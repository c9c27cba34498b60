// Every command against a coordinator in memory: what stands on stdout and
// stderr, and the exit code.

#include "client/cli/app.h"

#include <errno.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli/to_json.h"
#include "evenstep/testing/fake_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/errors.h"

namespace evenstep::cli {
namespace {

using client::FakeClient;
using client::Job;
using client::JobState;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJobFile[] =
    "name: small\ndata:\n  source: text:/data/books\nsteps: 2\nranks: 2\n";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The golden file's text. EVENSTEP_UPDATE_GOLDEN=1 writes it anew.
std::string Golden(const std::string& name, const std::string& actual) {
  const char* source = getenv("EVENSTEP_SOURCE_DIR");
  const std::string path = absl::StrCat(source == nullptr ? "." : source,
                                        "/client/cli/testdata/", name);
  if (getenv("EVENSTEP_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << actual;
  }
  return ReadFile(path);
}

client::StepSummary Step(int64_t step, double loss) {
  client::StepSummary summary;
  summary.step = step;
  summary.loss = loss;
  summary.step_seconds = 0.5;
  summary.predicted_seconds = 0.25;
  summary.trained_tokens = 6000;
  summary.idle_share = 0.125;
  summary.predicted_imbalance = 0.0625;
  summary.padding_ratio = 0.03125;
  summary.gate_seconds = 0.0009765625;
  summary.gradient_norm = 1.5;
  summary.plan_lead = 3;
  summary.policy = "even";
  summary.lower_bound_seconds = 0.25;
  summary.num_micro_batches = 4;
  summary.highest_degree = 2;
  summary.slowest_cpu_seconds = 0.5;
  summary.mean_cpu_seconds = 0.4375;
  return summary;
}

Job FullJob() {
  Job job;
  job.id = "books-1";
  job.name = "books";
  job.policy = "even";
  job.ranks = 2;
  job.num_steps = 100;
  job.job_file = "name: books\nsteps: 100\noptimizer:\n  lr: 0.003\n";
  job.state = JobState::kRunning;
  job.submitted = absl::FromUnixSeconds(1700000000);
  job.started = absl::FromUnixSeconds(1700000010);
  job.attempt = 1;
  job.generation = 1;
  job.placements = {{"node-0", 0, 1}, {"node-1", 1, 1}};
  job.steps_done = 12;
  job.recent_steps = {Step(10, 4.5), Step(11, 4.25)};
  job.totals.step_seconds = 6;
  job.totals.idle_share = 0.125;
  job.totals.coordination_share = 0.00390625;
  job.totals.trained_tokens = 72000;
  job.totals.padding_ratio = 0.03125;
  job.totals.steps_with_plan_lead = 8;
  job.totals.steps_after_fourth = 8;
  job.data = client::DataSummary{1000, 20, 3, 0, 4096, 1234567};
  job.costs = client::Costs{1000, 250.5, 0.5, 2000, {{2, 75.5}}, 3000};
  return job;
}

// A file that takes `room` writes and then fails with `error`.
class FailingBuffer : public std::streambuf {
 public:
  FailingBuffer(int room, int error) : room_(room), error_(error) {}
  int num_writes() const { return num_writes_; }

 protected:
  std::streamsize xsputn(const char*, std::streamsize size) override {
    if (++num_writes_ <= room_) return size;
    errno = error_;
    return 0;
  }
  int overflow(int c) override {
    const char letter = static_cast<char>(c);
    return xsputn(&letter, 1) == 1 ? c : EOF;
  }

 private:
  const int room_;
  const int error_;
  int num_writes_ = 0;
};

class AppTest : public ::testing::Test {
 protected:
  AppTest() {
    setenv("TZ", "UTC", 1);
    clock_.Advance(absl::Seconds(1700000099));
    folder_ = ::testing::TempDir() + "app_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    job_file_ = folder_ + "/job.yaml";
    std::ofstream(job_file_) << kJobFile;
    // A submitted job trains two steps and succeeds.
    fake_.ScriptSubmit([](FakeClient& fake, const Job& job) {
      client::JobEvent event;
      event.state = JobState::kRunning;
      event.attempt = 1;
      fake.AddEvent(job.id, event);
      fake.AddStep(job.id, Step(0, 5.5));
      fake.AddStep(job.id, Step(1, 5.25));
      event.state = JobState::kSucceeded;
      fake.AddEvent(job.id, event);
    });
  }
  ~AppTest() override { std::filesystem::remove_all(folder_); }

  int Run(const std::vector<std::string>& words) {
    out_.str("");
    err_.str("");
    Environment environment(stdout_ == nullptr ? out_ : *stdout_, err_);
    environment.out_is_terminal = terminal_;
    environment.err_is_terminal = terminal_;
    environment.colour = terminal_;
    environment.columns = [] { return 80; };
    environment.connect = [this](const client::ClientOptions& options) {
      coordinator_ = options.coordinator;
      return client::Borrow(fake_);
    };
    environment.interrupted = interrupt_.get_token();
    environment.clock = &clock_;
    return RunCli(words, environment);
  }

  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  FakeClient fake_;
  FakeClock clock_;
  std::stop_source interrupt_;
  bool terminal_ = false;
  std::string folder_;
  std::string job_file_;
  std::string coordinator_;
  std::ostringstream out_;
  std::ostream* stdout_ = nullptr;  // in the place of out_
  std::ostringstream err_;
};

TEST_F(AppTest, SubmitPrintsTheIdFirstAndWaitsForTheEnd) {
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first"}), 0) << err();
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), HasSubstr("step 2/2  loss 5.2500"));
  EXPECT_THAT(err(), HasSubstr("Job first SUCCEEDED after 2 of 2 steps"));
}

TEST_F(AppTest, SubmitPrintsTheIdBeforeItWatches) {
  std::string seen;
  fake_.ScriptSubmit([&](FakeClient& fake, const Job& job) {
    client::JobEvent event;
    event.state = JobState::kFailed;
    fake.AddEvent(job.id, event);
    seen = out_.str();
  });
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first"}), 1);
  EXPECT_EQ(seen, "");  // not stored yet: nothing is promised
  EXPECT_EQ(out(), "first\n");
}

TEST_F(AppTest, SubmitWithoutWaitingPrintsOnlyTheId) {
  EXPECT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), IsEmpty());
}

TEST_F(AppTest, SubmitTwiceWithOneIdIsOneJob) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), HasSubstr("submitted before"));
}

TEST_F(AppTest, AnIdTakenByAnotherJobIsRefused) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first", "--set",
                 "steps=9"}),
            5);
  EXPECT_THAT(out(), IsEmpty());
}

TEST_F(AppTest, SubmitSetsKeysAndTheName) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first", "--set",
                 "steps=9", "--set", "batch.samples=3", "--name", "other"}),
            0)
      << err();
  const Job job = *fake_.Get("first");
  EXPECT_EQ(job.num_steps, 9);
  EXPECT_EQ(job.name, "other");
  EXPECT_THAT(job.job_file, HasSubstr("samples: 3"));
}

TEST_F(AppTest, APresetNeedsNoFile) {
  EXPECT_EQ(Run({"submit", "--preset", "tiny", "--no-wait"}), 0) << err();
  EXPECT_THAT(out(), StartsWith("tiny-"));
}

TEST_F(AppTest, AFailedJobExitsWith1AndItsReason) {
  fake_.ScriptSubmit([](FakeClient& fake, const Job& job) {
    client::JobEvent event;
    event.state = JobState::kFailed;
    event.reason = "NOT_FINITE";
    event.message = "loss is not finite in step 1";
    fake.AddEvent(job.id, event);
  });
  EXPECT_EQ(Run({"submit", job_file_}), 1);
  EXPECT_THAT(err(), HasSubstr("(NOT_FINITE): loss is not finite in step 1"));
}

TEST_F(AppTest, CtrlCDetachesAndSaysSo) {
  fake_.ScriptSubmit(
      [this](FakeClient&, const Job&) { interrupt_.request_stop(); });
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first"}), 130);
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), HasSubstr("Detached: job first goes on"));
  EXPECT_EQ(fake_.Get("first")->state, JobState::kQueued);
}

TEST_F(AppTest, AMissingJobFileIsAUsageError) {
  EXPECT_EQ(Run({"submit", folder_ + "/none.yaml"}), 2);
  EXPECT_THAT(err(), HasSubstr("none.yaml"));
}

TEST_F(AppTest, AMistakeInTheJobFileIsShownWithItsLine) {
  std::ofstream(job_file_) << kJobFile << "modle: {layers: 1}\n";
  EXPECT_EQ(Run({"submit", job_file_}), 2);
  EXPECT_THAT(err(), HasSubstr("job.yaml:6"));
  EXPECT_THAT(err(), HasSubstr("modle"));
}

TEST_F(AppTest, AnInfeasibleJobIsRefusedWithItsReason) {
  fake_.FailWith(rpc::WithReason(
      absl::FailedPreconditionError("max_length 4096 needs 4 ranks"),
      "INFEASIBLE_PLAN"));
  EXPECT_EQ(Run({"submit", job_file_}), 5);
  EXPECT_EQ(err(),
            "evenstep: max_length 4096 needs 4 ranks (INFEASIBLE_PLAN)\n");
  EXPECT_THAT(out(), IsEmpty());
}

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

TEST_F(AppTest, SubmitAsJsonIsTheIdAndThenTheJob) {
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first", "-o", "json"}), 0);
  std::istringstream lines(out());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, R"({"id":"first","created":true})");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(Json::parse(line)["state"], "SUCCEEDED");
}

TEST_F(AppTest, ColourIsForTerminalsOnly) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("\033[")));
  terminal_ = true;
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_THAT(out(), HasSubstr("\033[32mRUNNING\033[0m"));
  EXPECT_EQ(Run({"list", "-o", "json"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("\033[")));
}

TEST_F(AppTest, ATerminalGetsABar) {
  terminal_ = true;
  EXPECT_EQ(Run({"submit", job_file_}), 0);
  EXPECT_THAT(err(), HasSubstr("\r\033[Kstep 1/2  ["));
}

TEST_F(AppTest, QuietIsQuiet) {
  EXPECT_EQ(Run({"submit", job_file_, "--quiet", "--id", "first"}), 0);
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), IsEmpty());
}

TEST_F(AppTest, LogsShowRankAndText) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  client::LogLine line;
  line.rank = 1;
  line.text = "step=0 loss=5.5";
  fake_.AddLog("first", line);
  line.rank = -1;
  line.text = "trainer started";
  fake_.AddLog("first", line);
  EXPECT_EQ(Run({"logs", "first"}), 0);
  EXPECT_EQ(out(), "[rank 1] step=0 loss=5.5\n[agent] trainer started\n");
  EXPECT_EQ(Run({"logs", "-f", "first", "--rank", "1"}), 0);
  EXPECT_EQ(out(), "[rank 1] step=0 loss=5.5\n");
  EXPECT_EQ(Run({"logs", "first", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("logs.json", out()));
}

TEST_F(AppTest, EventsAreShownInOrder) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(Run({"events", "first"}), 0);
  EXPECT_EQ(out(),
            "2023-11-14 22:13:20  RUNNING   \n"
            "2023-11-14 22:13:20  SUCCEEDED \n");
  EXPECT_EQ(Run({"events", "first", "-o", "json"}), 0);
  EXPECT_EQ(out(), Golden("events.json", out()));
}

TEST_F(AppTest, EventsOfARunningJobEndWithThePresent) {
  fake_.PutJob(FullJob());
  client::JobEvent event;
  event.state = JobState::kRunning;
  event.attempt = 1;
  event.message = "all ranks are in step";
  fake_.AddEvent("books-1", event);
  EXPECT_EQ(Run({"events", "books-1"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("all ranks are in step"));
}

TEST_F(AppTest, CancelStopsAJobAndFinishedJobsStay) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"cancel", "books-1", "--message", "enough"}), 0);
  EXPECT_EQ(fake_.Get("books-1")->state, JobState::kCancelled);
  EXPECT_EQ(fake_.Get("books-1")->message, "enough");
  EXPECT_EQ(Run({"cancel", "books-1"}), 0);
}

TEST_F(AppTest, WaitReturnsTheJobsOutcome) {
  ASSERT_EQ(Run({"submit", job_file_, "--no-wait", "--id", "first"}), 0);
  EXPECT_EQ(Run({"wait", "first"}), 0);
  Job job = FullJob();
  job.state = JobState::kCancelled;
  fake_.PutJob(job);
  EXPECT_EQ(Run({"wait", "books-1"}), 1);
}

TEST_F(AppTest, WaitGivesUpWith124) {
  fake_.PutJob(FullJob());
  EXPECT_EQ(Run({"wait", "books-1", "--timeout", "20ms"}), 124);
  EXPECT_THAT(err(), HasSubstr("has not ended within 20ms"));
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

TEST_F(AppTest, AFailedSubmitNamesTheIdThatMayBeStored) {
  for (const auto code :
       {absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kUnavailable}) {
    fake_.FailWith(absl::Status(code, "no answer"));
    EXPECT_EQ(Run({"submit", job_file_}), 3);
    EXPECT_THAT(err(), ContainsRegex("job small-[a-z0-9]+ may have been "
                                     "stored; say it again with --id small-"));
    EXPECT_EQ(Run({"submit", job_file_, "--id", "first", "--quiet"}), 3);
    EXPECT_THAT(err(), HasSubstr("with --id first\n"));
  }
  fake_.FailWith(absl::FailedPreconditionError("does not fit"));
  EXPECT_EQ(Run({"submit", job_file_}), 5);
  EXPECT_THAT(err(), Not(HasSubstr("may have been stored")));
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

TEST_F(AppTest, AnAnswerThatCannotBeWrittenIsAnError) {
  fake_.PutJob(FullJob());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"list", "-o", "json"},
        {"describe", "books-1"},
        {"version"},
        {"--help"},
        {"submit", job_file_}}) {
    FailingBuffer full(0, ENOSPC);
    std::ostream stream(&full);
    stdout_ = &stream;
    EXPECT_EQ(Run(command), 6) << command[0];
    EXPECT_THAT(err(), HasSubstr("evenstep: cannot write to stdout: No space"));
    EXPECT_EQ(full.num_writes(), 1) << command[0];
  }
}

TEST_F(AppTest, AClosedPipeEndsAStreamSilently) {
  fake_.PutJob(FullJob());
  client::LogLine line;
  line.text = "a line";
  for (int i = 0; i < 5; ++i) fake_.AddLog("books-1", line);
  client::JobEvent event;
  event.state = JobState::kRunning;
  for (int i = 0; i < 5; ++i) fake_.AddEvent("books-1", event);
  for (const char* command : {"logs", "events"}) {
    FailingBuffer pipe(1, EPIPE);
    std::ostream stream(&pipe);
    stdout_ = &stream;
    // The job runs on: only the closed pipe ends this.
    EXPECT_EQ(Run({command, "-f", "books-1"}), 0) << command;
    EXPECT_THAT(err(), IsEmpty());
    EXPECT_EQ(pipe.num_writes(), 2) << command;
  }
}

}  // namespace
}  // namespace evenstep::cli
