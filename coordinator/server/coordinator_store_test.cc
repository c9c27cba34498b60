// What a full disk does to jobs and logs.

#include <memory>
#include <string>
#include <vector>

#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/errors.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

TEST_F(CoordinatorTest, ACancelThatIsNotStoredIsRefusedAndDoesNothing) {
  StartJob("job", 100);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  v1::CancelRequest request;
  request.set_job_id("job");
  const auto refused = coordinator_->Cancel(request);
  EXPECT_EQ(rpc::ReasonOf(refused.status()), "STORE_FAILED");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(a_->Count(What::kStop), 0);
  faulty_->FailWrites(absl::OkStatus());
  Cancel("job");
  Restart();
  a_ = Join("a");
  b_ = Join("b");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, AFullDiskRefusesSubmitsAndAllocatesNothing) {
  a_ = Join("a");
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  const auto refused = coordinator_->Submit(testing::SmallJob("job", 1, 6));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rpc::ReasonOf(refused.status()), "STORE_FAILED");
  v1::GetRequest get;
  get.set_job_id("job");
  EXPECT_EQ(coordinator_->Get(get).status().code(),
            absl::StatusCode::kNotFound);
  faulty_->FailWrites(absl::OkStatus());
  Submit("job", 6, 1);
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
}

TEST_F(CoordinatorTest, AnAllocationThatIsNotStoredDoesNotHappen) {
  Submit("job", 6, 1);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  a_ = Join("a");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(a_->Count(What::kAssignment), 0);
  faulty_->FailWrites(absl::OkStatus());
  Pass(absl::Seconds(2), {a_});
  EXPECT_EQ(a_->Count(What::kAssignment), 1);
}

TEST_F(CoordinatorTest, AStoredJobThatIsNoLongerLegalDoesNotHoldTheQueue) {
  Submit("old", 6, 1);
  Submit("new", 6, 1);
  Progress changed;
  changed.jobs = *store_->LoadJobs();
  changed.jobs.resize(1);
  ASSERT_EQ(changed.jobs[0].job.job_id(), "old");
  changed.jobs[0].job.mutable_spec()->mutable_batch()->set_samples(1 << 28);
  ASSERT_TRUE(store_->AppendProgress(changed).ok());
  Restart();
  a_ = Join("a");
  Pass(absl::Seconds(10), {a_});
  EXPECT_EQ(Get("old").state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("old").reason(), "INVALID_JOB");
  EXPECT_THAT(Get("old").message(), HasSubstr("268435456 is not in"));
  EXPECT_EQ(Get("new").state(), v1::JOB_STATE_STARTING);
}

TEST_F(CoordinatorTest, FinishedJobsBeyondTheNumberAreForgottenOldestFirst) {
  options_.retained_jobs = 2;
  Restart();
  for (const char* id : {"a", "b", "c", "d"}) Submit(id);
  for (const char* id : {"c", "a", "d"}) {
    Cancel(id);
    Pass(absl::Seconds(1), {});
  }
  Pass(absl::Seconds(40), {});
  for (bool restarted : {false, true}) {
    if (restarted) Restart();
    v1::ListRequest all;
    std::vector<std::string> ids;
    const auto listed = coordinator_->List(all);
    for (const v1::Job& job : listed->jobs()) ids.push_back(job.job_id());
    EXPECT_EQ(ids, (std::vector<std::string>{"d", "b", "a"})) << restarted;
  }
  EXPECT_TRUE(store_->ReadEvents("c", 0, 10)->empty());
  Submit("c");  // as if it had never been
}

// Agents remember attempts for longer than the coordinator remembers jobs.
TEST_F(CoordinatorTest, AReusedIdGoesOnFromTheForgottenJobsAttempt) {
  options_.retained_jobs = 1;
  Restart();
  StartJob("a");
  const v1::AttemptId old = Id(a_);
  Cancel("a");
  EndBoth();
  Submit("b");
  Cancel("b");
  EndBoth();
  Pass(absl::Seconds(40), {a_, b_});
  v1::GetRequest request;
  request.set_job_id("a");
  ASSERT_TRUE(absl::IsNotFound(coordinator_->Get(request).status()));
  Submit("a");
  EXPECT_EQ(Id(a_).job_id(), "a");
  EXPECT_GT(Id(a_).attempt(), old.attempt());
  EXPECT_GT(Id(a_).generation(), old.generation());
  Say(a_, testing::Ended(old));  // a late word of the first one
  Settle();
  EXPECT_EQ(Get("a").state(), v1::JOB_STATE_STARTING);
  StartRanks();
  EXPECT_EQ(Get("a").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, AReusedIdDoesNotInheritLostStarts) {
  options_.retained_jobs = 1;
  Restart();
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  const auto lose_start = [&](int i) {
    coordinator_->OnAgentGone(b_.get());
    b_ = Join("b", {}, absl::StrCat("again ", i));
  };
  for (int i = 0; i < 3; ++i) lose_start(i);
  coordinator_->OnAgentGone(b_.get());  // the fourth
  Cancel("job");
  Submit("other");
  Cancel("other");
  Pass(absl::Seconds(40), {a_});
  b_ = Join("b", {}, "last");
  Submit("job");
  ASSERT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
  lose_start(5);
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING) << Get("job").message();
}

TEST_F(CoordinatorTest, FinishedJobsAreForgottenWithAge) {
  options_.retained_for = absl::Hours(1);
  Restart();
  Submit("job");
  Submit("waits");
  Cancel("job");
  clock_.Advance(absl::Minutes(59));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
  clock_.Advance(absl::Minutes(2));
  Settle();
  v1::GetRequest request;
  request.set_job_id("job");
  EXPECT_TRUE(absl::IsNotFound(coordinator_->Get(request).status()));
  EXPECT_EQ(Get("waits").state(), v1::JOB_STATE_QUEUED);
}

TEST_F(CoordinatorTest, JobsForgottenForTheirAgeCountAmongThoseThatAreTooMany) {
  options_.retained_jobs = 3;
  options_.retained_for = absl::Hours(1);
  Restart();
  for (const char* id : {"old-1", "old-2"}) {
    Submit(id);
    Cancel(id);
  }
  Pass(absl::Minutes(59), {});
  for (const char* id : {"a", "b", "c"}) {
    Submit(id);
    Cancel(id);
  }
  clock_.Advance(absl::Minutes(2));
  Settle();
  v1::ListRequest all;
  EXPECT_EQ(coordinator_->List(all)->jobs_size(), 3)
      << "five were there, three may stay, and two are too old";
}

TEST_F(CoordinatorTest, AJumpOfTheWallClockMakesNoJobOlder) {
  options_.retained_for = absl::Hours(30 * 24);
  Restart();
  Submit("job");
  Cancel("job");
  clock_.JumpWall(absl::Hours(31 * 24));
  Pass(absl::Minutes(2), {});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
  Restart();  // what the store knows does not confirm the jump
  Pass(absl::Minutes(2), {});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
  clock_.Advance(absl::Hours(30 * 24));
  Settle();
  v1::GetRequest request;
  request.set_job_id("job");
  EXPECT_TRUE(absl::IsNotFound(coordinator_->Get(request).status()))
      << "that time has passed";
}

TEST_F(CoordinatorTest, AfterALongStopLaterJobsConfirmTheTime) {
  options_.retained_for = absl::Hours(1);
  Restart();
  Submit("job");
  Cancel("job");
  coordinator_.reset();
  clock_.Advance(absl::Hours(2));
  Restart();
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
  Submit("later");
  Restart();
  Settle();
  v1::GetRequest request;
  request.set_job_id("job");
  EXPECT_TRUE(absl::IsNotFound(coordinator_->Get(request).status()));
}

TEST_F(CoordinatorTest, AMoveThatTheDiskRefusedIsStoredLater) {
  StartJob("job", 100);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  Say(b_, testing::Killed(Id(a_), 1, 9));
  EndBoth();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_FALSE(coordinator_->Submit(testing::SmallJob("other", 1, 6)).ok());
  faulty_->FailWrites(absl::OkStatus());
  Pass(absl::Seconds(3), {a_, b_});
  Restart();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(Get("job").message(), HasSubstr("signal 9"));
}

// The row of a job must not say that it is over when its last event is not
// stored: the coordinator may die in between.
TEST_F(CoordinatorTest, AFinalStateIsNeverStoredWithoutItsEvent) {
  StartJob("job", 100);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  const v1::AttemptId id = Id(a_);
  Say(a_, testing::Log(id, 0, "last words"));
  Say(a_, testing::Ended(id));
  faulty_->FailMovesOnly(absl::ResourceExhaustedError("disk full"));
  Say(b_, testing::Ended(id));
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  Restart();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  a_ = Join("a");
  b_ = Join("b");
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  v1::WatchRequest request;
  request.set_job_id("job");
  coordinator_->followers().Watch(request, sink);
  ASSERT_TRUE(sink->finished);
  EXPECT_EQ(sink->messages.back().event().state(), v1::JOB_STATE_FAILED);
}

// More than the book keeps while the disk is full: the newest stay.
TEST_F(CoordinatorTest, LogLinesThatWaitForTheDiskAreBoundedInBytes) {
  StartJob("job", 100);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  const std::string text(8 << 10, 'x');
  for (int i = 0; i < 6000; ++i) Say(a_, testing::Log(Id(a_), 0, text));
  faulty_->FailWrites(absl::OkStatus());
  Pass(absl::Seconds(2), {a_, b_});
  const auto page = faulty_->ReadLog("job", 0, 10000);
  EXPECT_EQ(page->lines.size(), 4096u) << "32 MiB";
  EXPECT_EQ(page->lines.back().sequence(), 6000);
  EXPECT_EQ(page->num_dropped, 6000 - 4096);
}

}  // namespace
}  // namespace evenstep::coordinator
