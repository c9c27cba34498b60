#include "coordinator/store/job_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "coordinator/store/sqlite_job_store.h"
#include "coordinator/testing/faulty_job_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

class JobStoreTest : public ::testing::Test {
 protected:
  JobStoreTest() {
    std::string name = ::testing::TempDir() + "/evenstep-store-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/store.db";
  }
  ~JobStoreTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<SqliteJobStore> Open(const std::string& path,
                                       const StoreLimits& limits = {}) {
    auto store = SqliteJobStore::Open(path, limits);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  std::string folder_;
  std::string path_;
};

JobRecord Record(const std::string& id) {
  JobRecord record;
  record.job.set_job_id(id);
  record.job.mutable_spec()->set_name("name of " + id);
  record.last_event = 1;
  return record;
}

v1::JobEvent Event(int64_t sequence, JobState state) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.set_state(static_cast<v1::JobState>(state));
  event.set_reason("REASON");
  return event;
}

v1::LogLine Line(int64_t sequence) {
  v1::LogLine line;
  line.set_sequence(sequence);
  line.set_text(std::string("line\0with zero", 14));
  return line;
}

TEST_F(JobStoreTest, WhatWasCreatedIsThereAfterReopening) {
  {
    auto store = Open(path_);
    JobRecord first = Record("first"), second = Record("second");
    ASSERT_TRUE(store->Create(&first, Event(1, JobState::kQueued)).ok());
    ASSERT_TRUE(store->Create(&second, Event(1, JobState::kQueued)).ok());
    EXPECT_LT(first.arrival, second.arrival);
  }
  const auto jobs = Open(path_)->LoadJobs();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].job.job_id(), "first");
  EXPECT_EQ((*jobs)[1].job.spec().name(), "name of second");
  EXPECT_EQ((*jobs)[1].status, JobStatus{JobState::kQueued});
}

TEST_F(JobStoreTest, ASubmitSurvivesKillMinusNine) {
  const pid_t child = fork();
  if (child == 0) {
    auto store = SqliteJobStore::Open(path_, {});
    JobRecord record = Record("promised");
    if (!store.ok() ||
        !(*store)->Create(&record, Event(1, JobState::kQueued)).ok()) {
      _exit(1);
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed before its death";
  const auto jobs = Open(path_)->LoadJobs();
  ASSERT_TRUE(jobs.ok());
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_EQ((*jobs)[0].job.job_id(), "promised");
}

TEST_F(JobStoreTest, TheSameIdTwiceIsRefusedAndLeavesNoTrace) {
  auto store = Open(":memory:");
  JobRecord record = Record("a");
  ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
  EXPECT_EQ(store->Create(&record, Event(7, JobState::kQueued)).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store->ReadEvents("a", 0, 10)->size(), 1u);
}

TEST_F(JobStoreTest, AMoveStoresJobEventAndAttemptTogether) {
  auto store = Open(":memory:");
  JobRecord record = Record("a");
  ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
  record.status = {JobState::kStarting};
  record.last_event = 2;
  record.job.set_attempt(1);
  v1::Placement* placement = record.job.add_placements();
  placement->set_node("node0");
  placement->set_num_ranks(2);
  ASSERT_TRUE(
      store->RecordMove(record, Event(2, JobState::kStarting), {}).ok());
  // The same attempt again breaks a rule half-way: nothing of it stays.
  record.last_event = 3;
  EXPECT_FALSE(
      store->RecordMove(record, Event(3, JobState::kStarting), {}).ok());
  EXPECT_EQ(store->LoadJobs()->front().last_event, 2);
  EXPECT_EQ(store->LoadJobs()->front().status.state, JobState::kStarting);
  const auto events = store->ReadEvents("a", 1, 10);
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ((*events)[0].sequence(), 2);
}

TEST_F(JobStoreTest, ARemovedJobsLastAttemptIsRememberedAndBounded) {
  StoreLimits limits;
  limits.forgotten_jobs = 2;
  auto store = *SqliteJobStore::Open(path_, limits);
  const auto run_and_remove = [&](const std::string& id, int attempt) {
    JobRecord record = Record(id);
    ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
    if (attempt > 0) {
      record.status = {JobState::kStarting};
      record.job.set_attempt(attempt);
      record.job.set_generation(attempt + 10);
      record.job.add_placements()->set_node("node0");
      ASSERT_TRUE(
          store->RecordMove(record, Event(2, JobState::kStarting), {}).ok());
    }
    ASSERT_TRUE(store->Remove(id).ok());
  };
  const auto attempt_of_new = [&](const std::string& id) {
    JobRecord record = Record(id);
    EXPECT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
    return std::pair(record.job.attempt(), record.job.generation());
  };
  run_and_remove("a", 1);
  run_and_remove("b", 3);
  run_and_remove("b", 0);  // forgets nothing
  run_and_remove("c", 5);  // in the place of a
  store.reset();
  store = *SqliteJobStore::Open(path_, limits);
  using Numbers = std::pair<int32_t, int64_t>;
  EXPECT_EQ(attempt_of_new("a"), Numbers(0, 0));
  EXPECT_EQ(attempt_of_new("b"), Numbers(3, 13));
  EXPECT_EQ(attempt_of_new("c"), Numbers(5, 15));
}

TEST_F(JobStoreTest, AFileOfVersionOneIsBroughtUpToDate) {
  ASSERT_TRUE(Open(path_)
                  ->database()
                  .Execute("DROP TABLE forgotten; PRAGMA user_version=1")
                  .ok());
  auto store = Open(path_);
  JobRecord record = Record("a");
  EXPECT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
}

TEST_F(JobStoreTest, AMoveOfAnUnknownJobIsNotFound) {
  EXPECT_EQ(Open(":memory:")
                ->RecordMove(Record("x"), Event(2, JobState::kCancelled), {})
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_F(JobStoreTest, StoppingRemembersWhatFollows) {
  auto store = Open(":memory:");
  JobRecord record = Record("a");
  ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
  record.status = {JobState::kStopping, JobState::kCancelled};
  ASSERT_TRUE(
      store->RecordMove(record, Event(2, JobState::kStopping), {}).ok());
  EXPECT_EQ(store->LoadJobs()->front().status, record.status);
}

TEST_F(JobStoreTest, LinesAreBoundedAndTheDroppedOnesCounted) {
  auto store = Open(":memory:", {.steps_per_job = 10, .log_lines_per_job = 3});
  JobRecord record = Record("a");
  ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
  Progress progress;
  for (int i = 1; i <= 5; ++i) progress.lines.push_back({"a", Line(i)});
  ASSERT_TRUE(store->AppendProgress(progress).ok());
  LogPage page = *store->ReadLog("a", 0, 100);
  ASSERT_EQ(page.lines.size(), 3u);
  EXPECT_EQ(page.lines[0].sequence(), 3);
  EXPECT_EQ(page.lines[0].text(), Line(3).text());
  EXPECT_EQ(page.num_dropped, 2);
  page = *store->ReadLog("a", 3, 1);
  ASSERT_EQ(page.lines.size(), 1u);
  EXPECT_EQ(page.lines[0].sequence(), 4);
  EXPECT_EQ(page.num_dropped, 0);
}

TEST_F(JobStoreTest, StepsAreRetainedAndForgottenByTheNextAttempt) {
  auto store = Open(":memory:", {.steps_per_job = 2, .log_lines_per_job = 3});
  JobRecord record = Record("a");
  ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
  Progress progress;
  for (int i = 0; i < 4; ++i) {
    progress.steps.push_back({"a", {}});
    progress.steps.back().step.set_step(i);
  }
  ASSERT_TRUE(store->AppendProgress(progress).ok());
  ASSERT_EQ(store->ReadSteps("a", -1, 100)->size(), 2u);
  EXPECT_EQ(store->ReadSteps("a", 2, 100)->front().step(), 3);
  record.status = {JobState::kStarting};
  record.job.set_attempt(2);
  ASSERT_TRUE(
      store->RecordMove(record, Event(2, JobState::kStarting), {}).ok());
  EXPECT_TRUE(store->ReadSteps("a", -1, 100)->empty());
}

TEST_F(JobStoreTest, AMoveAndWhatCameBeforeAreStoredTogetherOrNotAtAll) {
  auto store = Open(":memory:");
  JobRecord record = Record("a");
  ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
  Progress before;
  before.lines.push_back({"a", Line(1)});
  record.status = {JobState::kFailed};
  EXPECT_FALSE(
      store->RecordMove(record, Event(1, JobState::kFailed), before).ok());
  EXPECT_TRUE(store->ReadLog("a", 0, 100)->lines.empty());
  EXPECT_EQ(store->LoadJobs()->front().status.state, JobState::kQueued);
  ASSERT_TRUE(
      store->RecordMove(record, Event(2, JobState::kFailed), before).ok());
  EXPECT_EQ(store->ReadLog("a", 0, 100)->lines.size(), 1u);
  EXPECT_EQ(store->LoadJobs()->front().status.state, JobState::kFailed);
}

TEST_F(JobStoreTest, TwoCoordinatorsNeverShareAFile) {
  auto store = Open(path_);
  const auto second = SqliteJobStore::Open(path_, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr("another coordinator"));
}

TEST_F(JobStoreTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(path_) << std::string(8192, 'x');
  const auto store = SqliteJobStore::Open(path_, {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(store.status().message(), HasSubstr(path_));
}

TEST_F(JobStoreTest, ADamagedPageIsRefused) {
  {
    auto store = Open(path_);
    for (int i = 0; i < 60; ++i) {
      JobRecord record = Record("job-" + std::to_string(i));
      ASSERT_TRUE(store->Create(&record, Event(1, JobState::kQueued)).ok());
    }
  }
  const auto size = std::filesystem::file_size(path_);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  for (auto offset = 4096u; offset < size; offset += 512) {
    file.seekp(offset);
    file << std::string(64, '\x5a');
  }
  file.close();
  EXPECT_EQ(SqliteJobStore::Open(path_, {}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(JobStoreTest, AFileOfANewerVersionIsRefused) {
  ASSERT_TRUE(Open(path_)->database().Execute("PRAGMA user_version=99").ok());
  const auto store = SqliteJobStore::Open(path_, {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(store.status().message(), HasSubstr("version 99"));
}

TEST_F(JobStoreTest, AFullDiskIsAnErrorAndNothingIsHalfWritten) {
  auto store = Open(path_);
  ASSERT_TRUE(store->database().Execute("PRAGMA max_page_count=1").ok());
  absl::Status status;
  int stored = 0;
  for (int i = 0; i < 2000 && status.ok(); ++i) {
    JobRecord record = Record("job-" + std::to_string(i));
    record.job.mutable_spec()->set_name(std::string(3000, 'n'));
    status = store->Create(&record, Event(1, JobState::kQueued));
    if (status.ok()) ++stored;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(static_cast<int>(store->LoadJobs()->size()), stored);
}

TEST_F(JobStoreTest, AFaultyStoreFailsWritesUntilItIsWellAgain) {
  auto real = Open(":memory:");
  FaultyJobStore store(*real);
  JobRecord record = Record("a");
  store.FailWrites(absl::ResourceExhaustedError("disk full"));
  EXPECT_FALSE(store.Create(&record, Event(1, JobState::kQueued)).ok());
  EXPECT_EQ(store.num_failed(), 1);
  store.FailWrites(absl::OkStatus());
  EXPECT_TRUE(store.Create(&record, Event(1, JobState::kQueued)).ok());
  EXPECT_EQ(store.LoadJobs()->size(), 1u);
}

}  // namespace
}  // namespace evenstep::coordinator
