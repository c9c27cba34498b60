#include "worker/agent/slow_checks.h"

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

// A check that hangs until the test lets it go; shared, as its thread may be
// left behind.
struct Hang {
  absl::Notification begun;
  absl::Notification go;
  absl::Notification over;
};

std::function<absl::Status()> HangingCheck(std::shared_ptr<Hang> hang) {
  return [hang = std::move(hang)] {
    hang->begun.Notify();
    hang->go.WaitForNotification();
    hang->over.Notify();
    return absl::OkStatus();
  };
}

// What a check was answered with.
class Answer {
 public:
  std::function<void(const absl::Status&)> Take() {
    return [this](const absl::Status& status) {
      ++times_;
      status_ = status;
      came_.Notify();
    };
  }
  const absl::Status& Await() {
    came_.WaitForNotification();
    return status_;
  }
  int times() const { return times_; }

 private:
  int times_ = 0;
  absl::Status status_;
  absl::Notification came_;
};

TEST(SlowChecksTest, AnAnswerComesOnTheLoop) {
  EventLoop loop("test-loop");
  SlowChecks checks(&loop);
  Answer answer;
  checks.Run([] { return absl::NotFoundError("gone"); }, absl::Seconds(20),
             answer.Take());
  EXPECT_EQ(answer.Await(), absl::NotFoundError("gone"));
  checks.Stop(absl::Seconds(20));
}

TEST(SlowChecksTest, ACheckThatHangsIsAnsweredForAtItsLimitAndOnce) {
  EventLoop loop("test-loop");
  SlowChecks checks(&loop);
  const auto hang = std::make_shared<Hang>();
  Answer first, behind;
  checks.Run(HangingCheck(hang), absl::Milliseconds(10), first.Take());
  checks.Run([] { return absl::OkStatus(); }, absl::Milliseconds(20),
             behind.Take());
  EXPECT_TRUE(absl::IsDeadlineExceeded(first.Await())) << first.Await();
  EXPECT_TRUE(absl::IsDeadlineExceeded(behind.Await()));
  hang->go.Notify();
  Answer next;
  checks.Run([] { return absl::OkStatus(); }, absl::Seconds(20), next.Take());
  EXPECT_TRUE(next.Await().ok());
  EXPECT_EQ(first.times(), 1);
  EXPECT_EQ(behind.times(), 1);
  checks.Stop(absl::Seconds(20));
}

TEST(SlowChecksTest, StopDoesNotWaitForACheckThatHangs) {
  EventLoop loop("test-loop");
  const auto hang = std::make_shared<Hang>();
  Answer answer;
  {
    SlowChecks checks(&loop);
    checks.Run(HangingCheck(hang), absl::Seconds(20), answer.Take());
    hang->begun.WaitForNotification();
    checks.Stop(absl::Milliseconds(1));
  }
  loop.Stop();
  hang->go.Notify();
  hang->over.WaitForNotification();
  EXPECT_EQ(answer.times(), 0);
}

}  // namespace
}  // namespace evenstep::agent
