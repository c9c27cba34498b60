#include "coordinator/placement/job_queue.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

JobQueue QueueOf(const std::vector<WaitingJob>& jobs) {
  JobQueue queue;
  for (const WaitingJob& job : jobs) queue.Add(job);
  return queue;
}

TEST(JobQueueTest, FirstComesFirst) {
  const WaitingJob one{1, "one", 2};
  const WaitingJob two{2, "two", 1};
  const JobQueue queue = QueueOf({two, one});
  ASSERT_NE(queue.Next(2), nullptr);
  EXPECT_EQ(*queue.Next(2), one);
  EXPECT_EQ(queue.PositionOf(1), 1);
  EXPECT_EQ(queue.PositionOf(2), 2);
  EXPECT_EQ(queue.PositionOf(3), 0);
}

TEST(JobQueueTest, ASmallJobDoesNotPassAWaitingLargeOne) {
  const WaitingJob large{1, "large", 4};
  const WaitingJob small{2, "small", 1};
  const JobQueue queue = QueueOf({large, small});
  const std::vector<FreeNode> nodes = {{"a", 4, 3}};
  EXPECT_EQ(*queue.Next(4), large);
  const PendingReason first = WhyWaiting(large, queue, nodes);
  EXPECT_EQ(first.reason, "NO_CAPACITY");
  EXPECT_EQ(first.message,
            "needs 4 slots at once; 3 of 4 are free on 1 nodes; starts when 1 "
            "more are free");
  const PendingReason second = WhyWaiting(small, queue, nodes);
  EXPECT_EQ(second.reason, "BEHIND_PRIORITY");
  EXPECT_THAT(second.message, HasSubstr("'large'"));
}

TEST(JobQueueTest, AJobLargerThanTheClusterHoldsNobodyUp) {
  const WaitingJob huge{1, "huge", 9};
  const WaitingJob small{2, "small", 1};
  const JobQueue queue = QueueOf({huge, small});
  EXPECT_EQ(*queue.Next(4), small);
  const PendingReason reason = WhyWaiting(huge, queue, {{"a", 4, 3}});
  EXPECT_EQ(reason.reason, "NO_CAPACITY");
  EXPECT_THAT(reason.message, HasSubstr("add 5 slots"));
  EXPECT_EQ(WhyWaiting(small, queue, {{"a", 4, 3}}), PendingReason());
}

TEST(JobQueueTest, WithoutNodesEverybodyWaits) {
  const WaitingJob one{1, "one", 1};
  const JobQueue queue = QueueOf({one});
  EXPECT_EQ(queue.Next(0), nullptr);
  EXPECT_THAT(WhyWaiting(one, queue, {}).message, HasSubstr("0 of 0"));
}

// The rule in plain words: of all jobs in order of arrival the first that the
// cluster can hold.
const WaitingJob* PlainNext(const std::vector<WaitingJob>& jobs, int slots) {
  for (const WaitingJob& job : jobs) {
    if (job.ranks <= slots) return &job;
  }
  return nullptr;
}

TEST(JobQueueTest, JobsThatComeGoAndComeBackKeepTheirOrder) {
  std::mt19937 random(3);
  JobQueue queue;
  std::vector<WaitingJob> jobs;  // by arrival
  std::vector<WaitingJob> gone;
  const auto put_in = [&](const WaitingJob& job) {
    queue.Add(job);
    jobs.insert(std::lower_bound(jobs.begin(), jobs.end(), job,
                                 [](const auto& a, const auto& b) {
                                   return a.arrival < b.arrival;
                                 }),
                job);
  };
  for (int64_t round = 1; round <= 3000; ++round) {
    const auto what = random() % 5;
    if (what == 0 && !gone.empty()) {  // it was put back
      put_in(gone.back());
      gone.pop_back();
    } else if (what <= 2) {
      put_in({round, absl::StrCat("job-", round),
              static_cast<int>(1 + random() % 20)});
    } else if (!jobs.empty()) {
      const size_t which = random() % jobs.size();
      gone.push_back(jobs[which]);
      queue.Remove(jobs[which]);
      queue.Remove(jobs[which]);  // is not there any more
      jobs.erase(jobs.begin() + static_cast<int64_t>(which));
    }
    ASSERT_EQ(queue.size(), jobs.size());
    const int slots = static_cast<int>(random() % 24);
    const WaitingJob* const expected = PlainNext(jobs, slots);
    const WaitingJob* const next = queue.Next(slots);
    ASSERT_EQ(next == nullptr, expected == nullptr);
    if (next != nullptr) {
      ASSERT_EQ(*next, *expected);
    }
    if (jobs.empty()) continue;
    const size_t which = random() % jobs.size();
    ASSERT_EQ(queue.PositionOf(jobs[which].arrival),
              static_cast<int>(which) + 1);
  }
}

TEST(JobQueueTest, WorkDoesNotGrowWithTheQueue) {
  JobQueue queue;
  const auto work_of_one = [&](int64_t arrival) {
    const int64_t before = queue.num_visited();
    queue.Add({arrival, "job", static_cast<int>(1 + arrival % 4)});
    queue.Next(0);
    queue.Next(4);
    queue.PositionOf(arrival);
    return queue.num_visited() - before;
  };
  int64_t arrival = 1;
  while (arrival < 100) work_of_one(arrival++);
  const int64_t at_hundred = work_of_one(arrival++);
  while (arrival < 100000) work_of_one(arrival++);
  // What the search for a position adds.
  EXPECT_LE(work_of_one(arrival), at_hundred + 11);
}

}  // namespace
}  // namespace evenstep::coordinator
