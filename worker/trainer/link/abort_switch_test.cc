#include "worker/trainer/link/abort_switch.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;
using testing::RunRanks;

std::shared_ptr<const GroupTree> GroupsOfOne(InProcessHub& hub) {
  auto tree = GroupTree::Build(*hub.MakeFactory(), 1, 0, 1);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return std::shared_ptr<const GroupTree>(*std::move(tree));
}

TEST(AbortSwitchTest, FiringWakesABlockedRank) {
  InProcessHub hub;
  absl::Notification over;
  const auto statuses = RunRanks(2, [&](int rank) -> absl::Status {
    const auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                              GroupTree::Build(*factory, 1, rank, 2));
    const std::shared_ptr<const GroupTree> groups = std::move(tree);
    if (rank == 1) {
      over.WaitForNotification();
      return absl::OkStatus();
    }
    AbortSwitch abort;
    abort.Attach(groups);
    EXPECT_FALSE(abort.fired());
    std::thread reader([&abort] { abort.Fire("abandoned"); });
    absl::Status status = groups->world().Barrier();
    reader.join();
    EXPECT_TRUE(abort.fired());
    over.Notify();
    return status;
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("abandoned"));
}

TEST(AbortSwitchTest, GroupsThatComeAfterItHasFiredAreAborted) {
  InProcessHub hub;
  AbortSwitch abort;
  abort.Fire("first");
  abort.Fire("second");
  const auto groups = GroupsOfOne(hub);
  abort.Attach(groups);
  const absl::Status status = groups->world().Barrier();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("first"));
}

TEST(AbortSwitchTest, DetachedGroupsAreLeftAlone) {
  InProcessHub hub;
  AbortSwitch abort;
  const auto groups = GroupsOfOne(hub);
  abort.Attach(groups);
  abort.Detach();
  abort.Fire("too late");
  EXPECT_TRUE(groups->world().Barrier().ok());
}

// The reader fires while the main thread is done with the groups: whoever comes
// last ends them.
TEST(AbortSwitchTest, FiringMayMeetTheEndOfTheGroups) {
  InProcessHub hub;
  for (int i = 0; i < 200; ++i) {
    AbortSwitch abort;
    auto groups = GroupsOfOne(hub);
    abort.Attach(groups);
    const std::weak_ptr<const GroupTree> watched = groups;
    std::thread reader([&abort] { abort.Fire("now"); });
    abort.Detach();
    groups = nullptr;
    reader.join();
    EXPECT_TRUE(abort.fired());
    EXPECT_TRUE(watched.expired()) << "somebody keeps the groups";
    EXPECT_EQ(hub.num_groups(), 0) << "a group was not ended";
    // Groups that come later are not forgotten.
    const auto later = GroupsOfOne(hub);
    abort.Attach(later);
    EXPECT_EQ(later->world().Barrier().code(), absl::StatusCode::kAborted);
    abort.Detach();
  }
}

}  // namespace
}  // namespace evenstep::trainer
