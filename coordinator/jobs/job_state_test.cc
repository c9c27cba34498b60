#include "coordinator/jobs/job_state.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using Key = std::tuple<JobState, JobState, JobAction, JobState>;

// The whole table, written a second time: state, what follows STOPPING, action,
// wanted `after` -> what must come of it. Everything else must be refused.
std::map<Key, JobStatus> Allowed() {
  using enum JobState;
  std::map<Key, JobStatus> allowed;
  for (JobState after : kAllJobStates) {
    for (JobState old : kAllJobStates) {
      allowed[{kQueued, old, JobAction::kAllocate, after}] = {kStarting};
      allowed[{kQueued, old, JobAction::kCancelQueued, after}] = {kCancelled};
      allowed[{kQueued, old, JobAction::kRefuseQueued, after}] = {kFailed};
      allowed[{kStarting, old, JobAction::kStart, after}] = {kRunning};
      allowed[{kRunning, old, JobAction::kLoseMember, after}] = {kRecovering};
      allowed[{kRecovering, old, JobAction::kRecover, after}] = {kRunning};
      allowed[{kStopping, old, JobAction::kConfirmGone, after}] = {old};
    }
  }
  for (JobState end : {kSucceeded, kFailed, kCancelled, kQueued}) {
    for (JobState old : kAllJobStates) {
      for (JobState live : {kStarting, kRunning, kRecovering}) {
        allowed[{live, old, JobAction::kStop, end}] = {kStopping, end};
      }
    }
    if (end != kQueued) {
      allowed[{kStopping, kQueued, JobAction::kStop, end}] = {kStopping, end};
    }
  }
  return allowed;
}

TEST(JobStateTest, ExactlyTheMovesOfTheTableExist) {
  const auto allowed = Allowed();
  int num_allowed = 0;
  for (JobState from : kAllJobStates) {
    for (JobState old : kAllJobStates) {
      for (JobAction action : kAllJobActions) {
        for (JobState after : kAllJobStates) {
          const auto next = NextStatus({from, old}, action, after);
          const auto expected = allowed.find({from, old, action, after});
          ASSERT_EQ(next.ok(), expected != allowed.end())
              << JobStateName(from) << " " << JobActionName(action) << " "
              << JobStateName(after);
          if (!next.ok()) continue;
          EXPECT_EQ(*next, expected->second);
          ++num_allowed;
        }
      }
    }
  }
  EXPECT_EQ(num_allowed, static_cast<int>(allowed.size()));
}

TEST(JobStateTest, NothingLeavesAFinalState) {
  for (JobState from : kAllJobStates) {
    if (!IsFinal(from)) continue;
    for (JobAction action : kAllJobActions) {
      EXPECT_FALSE(NextStatus({from}, action, JobState::kFailed).ok());
    }
  }
}

TEST(JobStateTest, SlotsAreHeldFromStartingToStopping) {
  for (JobState state : kAllJobStates) {
    EXPECT_EQ(HoldsSlots(state), state == JobState::kStarting ||
                                     state == JobState::kRunning ||
                                     state == JobState::kRecovering ||
                                     state == JobState::kStopping)
        << JobStateName(state);
  }
}

TEST(JobStateTest, RefusalSaysWhichMove) {
  const auto next = NextStatus({JobState::kSucceeded}, JobAction::kStop,
                               JobState::kCancelled);
  EXPECT_EQ(next.status().message(),
            "a job that is SUCCEEDED cannot stop and become CANCELLED");
}

}  // namespace
}  // namespace evenstep::coordinator
