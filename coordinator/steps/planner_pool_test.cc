#include "coordinator/steps/planner_pool.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

TEST(PlannerPoolTest, WorkRunsOnAnotherThreadInOrder) {
  PlannerPool pool(1);
  std::vector<int> order;
  absl::Notification done;
  std::thread::id worker;
  for (int i = 0; i < 3; ++i) pool.Run([&order, i] { order.push_back(i); });
  pool.Run([&] {
    worker = std::this_thread::get_id();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_NE(worker, std::this_thread::get_id());
}

TEST(PlannerPoolTest, TheEndDropsWhatHasNotBegun) {
  std::atomic<int> num_run = 0;
  absl::Notification begun;
  absl::Notification go_on;
  std::thread release;
  {
    PlannerPool pool(1);
    pool.Run([&] {
      ++num_run;
      begun.Notify();
      go_on.WaitForNotification();
    });
    begun.WaitForNotification();
    pool.Run([&] { ++num_run; });
    // The destructor clears the queue before it waits for the first piece.
    release = std::thread([&] { go_on.Notify(); });
    release.join();
  }
  EXPECT_GE(num_run, 1);
  EXPECT_LE(num_run, 2);
}

}  // namespace
}  // namespace evenstep::coordinator
