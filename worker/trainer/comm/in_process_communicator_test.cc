#include "worker/trainer/comm/in_process_communicator.h"

#include <memory>

#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/testing/communicator_suite.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using testing::CommunicatorTest;
using testing::SuiteBackEnd;
using testing::SuiteFabric;

class InProcessFabric : public SuiteFabric {
 public:
  explicit InProcessFabric(absl::Duration timeout) : hub_(timeout) {}
  absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory(
      int /*rank*/) override {
    return hub_.MakeFactory();
  }

 private:
  InProcessHub hub_;
};

INSTANTIATE_TEST_SUITE_P(InProcess, CommunicatorTest,
                         ::testing::Values(SuiteBackEnd{
                             "InProcess",
                             [](absl::Duration timeout) {
                               return std::unique_ptr<SuiteFabric>(
                                   new InProcessFabric(timeout));
                             },
                             /*names_disagreement=*/true}));

TEST(InProcessCommunicatorTest, ALetterOfAnotherSizeIsNamedOnBothSides) {
  InProcessHub hub;
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    int64_t value = 0;
    if (rank == 0) return pair->Send(&value, 8, 1);
    return pair->Recv(&value, 4, 0);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, absl::FailedPreconditionError(
                          "rank 0 sends 8 bytes, rank 1 expects 4"));
  }
}

// A third rank leaves while a letter is on its way: the sender's memory is its
// own again once it has failed, so the receiver must fail as well.
TEST(InProcessCommunicatorTest, ALetterOfASenderThatGaveUpIsNotRead) {
  for (int i = 0; i < 200; ++i) {
    InProcessHub hub;
    auto letter = std::make_unique<int64_t>(7);
    int64_t got = -1;
    const auto statuses = testing::RunRanks(3, [&](int rank) -> absl::Status {
      EVENSTEP_ASSIGN_OR_RETURN(
          auto group, hub.MakeFactory()->Create("three", {0, 3}, rank));
      if (rank == 1) return group->Recv(&got, 8, 0);
      if (rank == 2) return absl::OkStatus();  // leaves
      const absl::Status sent = group->Send(letter.get(), 8, 1);
      letter.reset();
      return sent;
    });
    ASSERT_EQ(statuses[0].ok(), statuses[1].ok()) << statuses[0];
    ASSERT_EQ(got, statuses[1].ok() ? 7 : -1);
  }
}

TEST(InProcessCommunicatorTest, AMessageToARankThatNeverComesTimesOut) {
  InProcessHub hub(absl::Milliseconds(500));
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    if (rank == 1) return pair->Barrier();
    return pair->Send(&rank, 4, 1);
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(statuses[1].ok());
}

}  // namespace
}  // namespace evenstep::trainer
