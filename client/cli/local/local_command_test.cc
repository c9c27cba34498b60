// `evenstep local` with shell scripts in the place of coordinator and agent,
// and a coordinator in memory: which processes it starts, and that it ends
// every one of them on every way out.

#include "client/cli/local/local_command.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/testing/temp_folder.h"
#include "client/cli/local/child_process.h"
#include "data/safetensors.h"
#include "evenstep/testing/fake_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;
using client::FakeClient;
using client::Job;
using client::JobState;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Says who it is in `pids`, and waits for SIGTERM.
constexpr char kWaitForTheEnd[] = R"(
echo "$$ $0 $*" >> "$(dirname "$0")/pids"
trap 'exit 0' TERM
while :; do sleep 0.01; done
)";
constexpr char kCoordinator[] = R"(#!/bin/sh
for word; do case "$word" in --port-file=*)
  echo 4321 > "${word#--port-file=}.new"
  mv "${word#--port-file=}.new" "${word#--port-file=}";;
esac; done
)";

bool IsAlive(pid_t pid) { return kill(pid, 0) == 0; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool WaitUntil(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

class LocalCommandTest : public ::testing::Test {
 protected:
  LocalCommandTest()
      : folder_(
            ::testing::TempDir() + "local_command_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    for (const char* sub : {"bin", "documents"}) {
      fs::create_directories(folder_ + "/" + sub);
    }
    setenv("TMPDIR", temporary_.path().c_str(), 1);
    const char* bin = getenv("EVENSTEP_BIN_DIR");
    fs::create_symlink(absl::StrCat(bin == nullptr ? "." : bin, "/evenstep"),
                       folder_ + "/bin/evenstep");
    WriteProgram("evenstep-coordinator",
                 absl::StrCat(kCoordinator, kWaitForTheEnd));
    WriteProgram("evenstep-worker",
                 absl::StrCat("#!/bin/sh\n", kWaitForTheEnd));
    std::ofstream(folder_ + "/documents/one.txt") << "text";
    command_.data = folder_ + "/documents";
    command_.output = folder_ + "/out";
    command_.ranks = 2;
  }
  ~LocalCommandTest() override {
    EXPECT_TRUE(fs::is_empty(temporary_.path()))
        << "the private folder is left";
    fs::remove_all(folder_);
    unsetenv("TMPDIR");
  }

  void WriteProgram(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/bin/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
  }

  // Lines "PID PROGRAM ARGUMENTS" of the children that have started.
  std::vector<std::string> Started() const {
    return absl::StrSplit(ReadFile(folder_ + "/bin/pids"), '\n',
                          absl::SkipEmpty());
  }

  void ExpectNobodyLives() const {
    for (const std::string& line : Started()) {
      EXPECT_FALSE(IsAlive(std::stoi(line))) << line;
    }
  }

  // A job that trains two steps once both agents run, and writes weights.
  void ScriptSuccess() {
    fake_.ScriptSubmit([this](FakeClient& fake, const Job& submitted) {
      ASSERT_TRUE(WaitUntil([this] { return Started().size() == 3; }));
      Job job = submitted;
      job.weights_path = folder_ + "/weights";
      std::ofstream(job.weights_path) << "weights";
      fake.PutJob(job);
      for (int64_t step : {0, 1}) {
        client::StepSummary summary;
        summary.step = step;
        summary.loss = 5.5 - 0.5 * static_cast<double>(step);
        summary.step_seconds = 1;
        fake.AddStep(job.id, summary);
      }
      client::JobEvent event;
      event.state = JobState::kSucceeded;
      fake.AddEvent(job.id, event);
    });
  }

  // The job fails after four steps and leaves weights.
  void EndEarly(FakeClient& fake, Job job, const std::string& reason) {
    job.weights_path = folder_ + "/weights";
    job.weights_steps = 4;
    job.weights_node = "node-0";
    std::ofstream(job.weights_path) << "weights";
    fake.PutJob(job);
    client::JobEvent event;
    event.state = JobState::kFailed;
    event.reason = reason;
    fake.AddEvent(job.id, event);
  }

  int Run() {
    Environment environment(out_, err_);
    environment.connect = [this](const client::ClientOptions& options) {
      coordinator_ = options.coordinator;
      return client::Borrow(fake_);
    };
    environment.interrupted = interrupt_.get_token();
    environment.interrupted_twice = interrupt_again_.get_token();
    environment.bin_dir = folder_ + "/bin";
    return Local(environment, global_, command_);
  }

  const TempFolder temporary_;  // short: sockets would be made there
  const std::string folder_;
  FakeClient fake_;
  GlobalOptions global_;
  LocalCommand command_;
  std::string coordinator_;
  std::stop_source interrupt_;
  std::stop_source interrupt_again_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(LocalCommandTest, StartsACoordinatorAndOneAgentPerRank) {
  ScriptSuccess();
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_EQ(coordinator_, "127.0.0.1:4321");
  // The coordinator listens before it has said its name here.
  const auto is_agent =
      AllOf(HasSubstr("--coordinator=127.0.0.1:4321"), HasSubstr("--slots=1"));
  EXPECT_THAT(Started(), UnorderedElementsAre(HasSubstr("--listen=127.0.0.1:0"),
                                              is_agent, is_agent));
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, LeavesWeightsLossCurveSummaryAndJobFile) {
  ScriptSuccess();
  command_.json_summary = folder_ + "/copy.json";
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_EQ(ReadFile(folder_ + "/out/model.safetensors"), "weights");
  EXPECT_THAT(ReadFile(folder_ + "/out/loss.csv"), HasSubstr("\n1,5,"));
  const std::string summary = ReadFile(folder_ + "/out/summary.json");
  EXPECT_EQ(Json::parse(summary)["losses"], Json({5.5, 5.0}));
  EXPECT_EQ(ReadFile(folder_ + "/copy.json"), summary);
  EXPECT_THAT(ReadFile(folder_ + "/out/job.yaml"), HasSubstr("source"));
  EXPECT_THAT(out_.str(), HasSubstr(folder_ + "/out/model.safetensors"));
}

TEST_F(LocalCommandTest, ASummaryThatCannotBeWrittenIsRefusedBeforeTheStart) {
  command_.json_summary = folder_ + "/none/copy.json";
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--json-summary " + command_.json_summary +
                                    ": there is no folder"));
  EXPECT_TRUE(Started().empty());
}

TEST_F(LocalCommandTest, ASummaryThatFailsAtTheEndHidesNoResults) {
  fs::create_directories(folder_ + "/copies");
  command_.json_summary = folder_ + "/copies/copy.json";
  fake_.ScriptSubmit([this](FakeClient& fake, const Job& job) {
    fs::remove_all(folder_ + "/copies");
    EndEarly(fake, job, "DATA_ERROR");
  });
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(out_.str(), HasSubstr(folder_ + "/out/model.safetensors"));
}

TEST_F(LocalCommandTest, SaysWhatAnEarlierRunLeftInItsFolder) {
  const std::string killed = folder_ + "/out/unfinished/job/model.safetensors";
  fs::create_directories(folder_ + "/out/unfinished/job");
  const std::string bytes(8, '\1');
  ASSERT_TRUE(data::WriteSafetensors(killed, {{"w", "F64", {1}, bytes}},
                                     {{"evenstep.steps", "12"}})
                  .ok());
  fs::create_directories(folder_ + "/out/logs");
  std::ofstream(folder_ + "/out/logs/node-0.log") << "earlier";
  std::ofstream(folder_ + "/out/loss.csv") << "earlier";
  std::ofstream(folder_ + "/out/.evenstep-output") << "*\n";
  ScriptSuccess();
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_THAT(err_.str(), HasSubstr("after 12 steps; to use them: evenstep "
                                    "generate " +
                                    killed));
  const std::string previous = folder_ + "/out/previous-1";
  EXPECT_THAT(err_.str(), HasSubstr("The earlier run is now in " + previous));
  EXPECT_EQ(ReadFile(previous + "/loss.csv"), "earlier");
  EXPECT_EQ(ReadFile(previous + "/logs/node-0.log"), "earlier");
  EXPECT_TRUE(fs::exists(folder_ + "/out/logs/node-0.log"));
  EXPECT_TRUE(fs::exists(killed));
}

TEST_F(LocalCommandTest, BadSamplesAreNamedInWords) {
  std::ofstream(folder_ + "/documents/empty.txt") << "";
  ScriptSuccess();
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "a log line";
  EXPECT_THAT(err_.str(), HasSubstr("Skips 1 bad sample: empty.txt: empty"));
}

TEST_F(LocalCommandTest, AFailedStartLeavesTheEarlierRunInItsPlace) {
  fs::create_directories(folder_ + "/out/logs");
  std::ofstream(folder_ + "/out/logs/node-0.log") << "earlier";
  std::ofstream(folder_ + "/out/loss.csv") << "earlier";
  std::ofstream(folder_ + "/out/.evenstep-output") << "*\n";
  WriteProgram("evenstep-coordinator",
               "#!/bin/sh\necho 'disk is full' >&2\nexit 4\n");
  EXPECT_EQ(Run(), 6);
  EXPECT_EQ(ReadFile(folder_ + "/out/loss.csv"), "earlier");
  EXPECT_EQ(ReadFile(folder_ + "/out/logs/node-0.log"), "earlier");
  EXPECT_FALSE(fs::exists(folder_ + "/out/logs/coordinator.log"));
  EXPECT_THAT(err_.str(), HasSubstr("Logs: " + folder_ + "/out/unfinished/"));
}

TEST_F(LocalCommandTest, AFailedJobEndsEverythingAndExitsWith1) {
  fake_.ScriptSubmit([](FakeClient& fake, const Job& job) {
    client::JobEvent event;
    event.state = JobState::kFailed;
    event.message = "loss is not finite";
    fake.AddEvent(job.id, event);
  });
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(err_.str(), HasSubstr("loss is not finite"));
  EXPECT_TRUE(fs::exists(folder_ + "/out/summary.json"));
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, CtrlCStopsTheJobCleanly) {
  fake_.ScriptSubmit(
      [this](FakeClient&, const Job&) { interrupt_.request_stop(); });
  EXPECT_EQ(Run(), 130);
  EXPECT_THAT(err_.str(), HasSubstr("Stopping after the step that runs now"));
  EXPECT_THAT(err_.str(), HasSubstr("A second Ctrl-C or SIGTERM does not"));
  EXPECT_THAT(err_.str(), HasSubstr("CANCELLED"));
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, AJobThatEndsEarlyNamesTheStepOfItsWeights) {
  command_.num_steps = 9;
  fake_.ScriptSubmit([this](FakeClient& fake, const Job& job) {
    EndEarly(fake, job, "DATA_ERROR");
  });
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(out_.str(), HasSubstr("--set model.weights=" + folder_ +
                                    "/out/model.safetensors\n"));
  EXPECT_EQ(ReadFile(folder_ + "/out/model.safetensors"), "weights");
  EXPECT_THAT(out_.str(), HasSubstr(folder_ + "/out/model.safetensors (after 4 "
                                              "of 9 steps)"));
  const Json summary = Json::parse(ReadFile(folder_ + "/out/summary.json"));
  EXPECT_EQ(summary["weights_steps"], 4);
}

TEST_F(LocalCommandTest, AFullDiskHasItsOwnExitCode) {
  fake_.ScriptSubmit([this](FakeClient& fake, const Job& job) {
    EndEarly(fake, job, "STORAGE_FULL");
  });
  EXPECT_EQ(Run(), 6);
}

TEST_F(LocalCommandTest, AJobWithoutWeightsSaysSo) {
  fake_.ScriptSubmit([](FakeClient& fake, const Job& submitted) {
    Job job = submitted;
    job.started = absl::UnixEpoch();
    job.weights_note = "no step was done";
    fake.PutJob(job);
    client::JobEvent event;
    event.state = JobState::kCancelled;
    fake.AddEvent(job.id, event);
  });
  EXPECT_EQ(Run(), 1);
  EXPECT_THAT(out_.str(), HasSubstr("none were written: no step was done"));
}

// The coordinator is not asked any more: what the trainers wrote is brought.
TEST_F(LocalCommandTest, ASecondCtrlCBringsTheWeightsThatWereWritten) {
  fake_.ScriptSubmit([this](FakeClient&, const Job& job) {
    const std::string place = folder_ + "/out/unfinished/" + job.id;
    fs::create_directories(place);
    const std::string bytes(8, '\1');
    ASSERT_TRUE(data::WriteSafetensors(place + "/model.rank-1.safetensors",
                                       {{"w", "F64", {1}, bytes}},
                                       {{"evenstep.steps", "3"}})
                    .ok());
    interrupt_.request_stop();
    interrupt_again_.request_stop();
  });
  EXPECT_EQ(Run(), 130);
  EXPECT_TRUE(data::ReadSafetensors(folder_ + "/out/model.safetensors").ok());
  EXPECT_THAT(out_.str(), HasSubstr("model.safetensors (after 3 of "));
  EXPECT_FALSE(fs::exists(folder_ + "/out/unfinished"));
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, ASecondCtrlCDoesNotWaitForTheStep) {
  fake_.ScriptSubmit([this](FakeClient&, const Job&) {
    interrupt_.request_stop();
    interrupt_again_.request_stop();
  });
  EXPECT_EQ(Run(), 130);
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, CtrlCDuringTheStartEndsEverything) {
  interrupt_.request_stop();
  EXPECT_EQ(Run(), 130);
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, AnAgentThatDiesIsReportedWithItsLastWords) {
  WriteProgram("evenstep-worker",
               "#!/bin/sh\necho 'no trainer beside me' >&2\nexit 3\n");
  EXPECT_EQ(Run(), 6);
  EXPECT_THAT(err_.str(),
              HasSubstr("evenstep-worker ended with exit status 3"));
  EXPECT_THAT(err_.str(), HasSubstr("no trainer beside me"));
  ExpectNobodyLives();
}

TEST_F(LocalCommandTest, ACoordinatorThatDiesIsReportedWithItsLastWords) {
  WriteProgram("evenstep-coordinator",
               "#!/bin/sh\necho 'disk is full' >&2\nexit 4\n");
  EXPECT_EQ(Run(), 6);
  EXPECT_THAT(err_.str(), HasSubstr("disk is full"));
  EXPECT_EQ(ReadFile(folder_ + "/out/logs/coordinator.log"), "disk is full\n");
  EXPECT_FALSE(fs::exists(folder_ + "/out/unfinished"));
}

TEST_F(LocalCommandTest, AMissingBinaryIsNamed) {
  fs::remove(folder_ + "/bin/evenstep-worker");
  EXPECT_NE(Run(), 0);
  EXPECT_THAT(err_.str(), HasSubstr("evenstep-worker"));
  ExpectNobodyLives();
}

// The launcher stands in for a CLI that is killed: its child must not outlive
// it.
TEST_F(LocalCommandTest, ChildrenDieWithAKilledParent) {
  const std::string launcher = folder_ + "/bin/evenstep";
  WriteProgram("parent",
               absl::StrCat("#!/bin/sh\n", launcher, " exec-child $$ ", folder_,
                            "/bin/evenstep-worker &\nwait\n"));
  ChildOptions options;
  options.launcher = launcher;
  options.program = folder_ + "/bin/parent";
  options.log_path = folder_ + "/parent.log";
  auto parent = ChildProcess::Start(options);
  ASSERT_TRUE(parent.ok()) << parent.status();
  ASSERT_TRUE(WaitUntil([this] { return Started().size() == 1; }));
  const pid_t child = std::stoi(Started()[0]);
  EXPECT_TRUE(IsAlive(child));
  kill(parent->pid(), SIGKILL);
  EXPECT_TRUE(WaitUntil([child] { return !IsAlive(child); }));
}

TEST_F(LocalCommandTest, AChildThatIgnoresSigtermIsKilled) {
  WriteProgram("stubborn",
               "#!/bin/sh\ntrap '' TERM\necho $$ > \"$0.pid\"\n"
               "while :; do sleep 0.01; done\n");
  ChildOptions options;
  options.launcher = folder_ + "/bin/evenstep";
  options.program = folder_ + "/bin/stubborn";
  options.log_path = folder_ + "/log";
  auto child = ChildProcess::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(WaitUntil(
      [this] { return !ReadFile(folder_ + "/bin/stubborn.pid").empty(); }));
  child->Terminate();
  child->WaitOrKill(absl::Milliseconds(50));
  EXPECT_EQ(child->Ended(), "was ended by signal 9");
  EXPECT_FALSE(IsAlive(child->pid()));
}

}  // namespace
}  // namespace evenstep::cli
