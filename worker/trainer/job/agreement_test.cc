#include "worker/trainer/job/agreement.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int kWorld = 3;

// Of each rank.
std::vector<absl::Status> OnAllRanks(
    const std::function<absl::Status(Communicator& world)>& body) {
  InProcessHub hub;
  std::vector<absl::Status> results(kWorld);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      const auto factory = hub.MakeFactory();
      const auto groups =
          GroupTree::Build(*factory, /*generation=*/1, rank, kWorld);
      results[rank] = body((*groups)->world());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(AgreementTest, OneRankThatDiffersFailsAllOfThem) {
  for (const int odd : {-1, 0, 2}) {
    const auto results = OnAllRanks([&](Communicator& world) {
      return CheckSameOnAllRanks(world, "the weights",
                                 world.rank() == odd ? ~uint64_t{0} : 7);
    });
    for (int rank = 0; rank < kWorld; ++rank) {
      EXPECT_EQ(results[rank].ok(), odd < 0) << results[rank];
      if (odd < 0) continue;
      EXPECT_TRUE(absl::IsFailedPrecondition(results[rank]));
      EXPECT_THAT(std::string(results[rank].message()),
                  HasSubstr(absl::StrCat("the weights are not the same on all "
                                         "ranks: rank ",
                                         rank, " has key ")));
    }
  }
}

TEST(AgreementTest, RankZerosTextIsEveryones) {
  for (const std::string& text : {std::string(), std::string("a\0b", 3)}) {
    const auto results = OnAllRanks([&](Communicator& world) -> absl::Status {
      std::string own = world.rank() == 0 ? text : "something else entirely";
      const absl::Status status = BroadcastText(world, &own);
      EXPECT_EQ(own, text);
      return status;
    });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok());
  }
}

}  // namespace
}  // namespace evenstep::trainer
