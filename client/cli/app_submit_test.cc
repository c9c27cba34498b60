// Submitting, waiting and cancelling against a coordinator in memory: what
// stands on stdout and stderr, and the exit code.

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/cli/app_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/errors.h"

namespace evenstep::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(AppTest, SubmitPrintsTheIdFirstAndWaitsForTheEnd) {
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first"}), 0) << err();
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), HasSubstr("2/2 steps  loss 5.2500"));
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
  EXPECT_THAT(job.job_yaml, HasSubstr("samples: 3"));
}

TEST_F(AppTest, APresetNeedsNoFile) {
  EXPECT_EQ(Run({"submit", "--preset", "tiny", "--set",
                 "data.source=text:/data", "--no-wait"}),
            0)
      << err();
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
  EXPECT_THAT(err(), HasSubstr("Detached: job first keeps running"));
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

TEST_F(AppTest, SubmitAsJsonIsTheIdAndThenTheJob) {
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first", "-o", "json"}), 0);
  std::istringstream lines(out());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, R"({"id":"first","created":true})");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(Json::parse(line)["state"], "SUCCEEDED");
}

TEST_F(AppTest, ATerminalGetsABar) {
  terminal_ = true;
  EXPECT_EQ(Run({"submit", job_file_}), 0);
  EXPECT_THAT(err(), HasSubstr("\r\033[K1/2 steps  ["));
}

TEST_F(AppTest, QuietIsQuiet) {
  EXPECT_EQ(Run({"submit", job_file_, "--quiet", "--id", "first"}), 0);
  EXPECT_EQ(out(), "first\n");
  EXPECT_THAT(err(), IsEmpty());
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

TEST_F(AppTest, SubmitAndWaitSayWhyTheJobWaits) {
  fake_.ScriptSubmit([](FakeClient& fake, const Job& submitted) {
    Job job = submitted;
    job.reason = "NO_CAPACITY";
    job.message = "2 ranks wanted, 1 of 1 slots is free";
    job.queue_position = 1;
    fake.PutJob(job);
  });
  std::thread later([this] {
    while (!fake_.Get("first").ok()) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(600));
    client::JobEvent event;
    event.state = JobState::kSucceeded;
    fake_.AddEvent("first", event);
  });
  EXPECT_EQ(Run({"submit", job_file_, "--id", "first"}), 0) << err();
  later.join();
  EXPECT_THAT(err(), HasSubstr("Waits (NO_CAPACITY), position 1 in the queue: "
                               "2 ranks wanted, 1 of 1 slots is free\n"));
}

TEST_F(AppTest, APresetWithoutDataIsAUsageError) {
  EXPECT_EQ(Run({"submit", "--preset", "tiny", "--no-wait"}), 2);
  EXPECT_THAT(err(), HasSubstr("--set data.source=text:PATH"));
  EXPECT_EQ(Run({"local", "--preset", "tiny"}), 2);
  EXPECT_THAT(err(), HasSubstr("--set data.source=text:PATH"));
}

TEST_F(AppTest, ACancelNamesTheTimeOutOfItsStop) {
  Job job = FullJob();
  job.job_yaml = std::string(kJobFile) + "timeouts: {stop: 7s}\n";
  fake_.PutJob(job);
  fake_.CancelTo(JobState::kStopping);
  EXPECT_EQ(Run({"cancel", "books-1"}), 0);
  EXPECT_THAT(err(), HasSubstr("not stopped after 7s (timeouts.stop)"));
}

}  // namespace
}  // namespace evenstep::cli
