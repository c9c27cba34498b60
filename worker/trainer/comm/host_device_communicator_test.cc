#include "worker/trainer/comm/host_device_communicator.h"

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/flight_recorder.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/communicator_suite.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using testing::CommunicatorTest;
using ::testing::Each;
using testing::SuiteBackEnd;
using testing::SuiteFabric;

// All memory is the host's: the suite runs over one of the two.
class HostDeviceFabric : public SuiteFabric {
 public:
  explicit HostDeviceFabric(absl::Duration timeout) : hub_(timeout) {}
  absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory(
      int /*rank*/) override {
    return MakeHostDeviceFactory(
        {.host = hub_.MakeFactory(),
         .device = hub_.MakeFactory(),
         .is_on_device = [](const void*) { return false; }});
  }

 private:
  InProcessHub hub_;
};

INSTANTIATE_TEST_SUITE_P(TwoMemories, CommunicatorTest,
                         ::testing::Values(SuiteBackEnd{
                             "TwoMemories",
                             [](absl::Duration timeout) {
                               return std::unique_ptr<SuiteFabric>(
                                   new HostDeviceFabric(timeout));
                             },
                             /*names_disagreement=*/true}));

TEST(HostDeviceTest, EachCallGoesWhereItsMemoryIs) {
  InProcessHub hub;
  FlightRecorder host[2];
  FlightRecorder device[2];
  const auto statuses = testing::RunRanks(2, [&](int rank) -> absl::Status {
    std::vector<float> on_device(4, 1.0F);
    auto factory = MakeHostDeviceFactory(
        {.host = MakeRecordingFactory(hub.MakeFactory(), &host[rank]),
         .device = MakeRecordingFactory(hub.MakeFactory(), &device[rank]),
         .is_on_device = [&](const void* data) {
           return data == on_device.data();
         }});
    EVENSTEP_ASSIGN_OR_RETURN(auto pair, factory->Create("pair", {0, 2}, rank));
    EVENSTEP_RETURN_IF_ERROR(pair->AllReduceSum(absl::MakeSpan(on_device)));
    std::vector<int64_t> vote = {rank};
    EVENSTEP_RETURN_IF_ERROR(pair->AllReduceMin(absl::MakeSpan(vote)));
    // Nothing to send, but a place on the device to receive.
    const std::vector<int64_t> none = {0, 0};
    EVENSTEP_RETURN_IF_ERROR(
        pair->AllToAllv(nullptr, none, on_device.data(), none));
    return pair->Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(host[rank].Entries().size(), 2);
    EXPECT_EQ(device[rank].Entries().size(), 2);
  }
}

// Its peers have memory on the device, it has none at all.
TEST(HostDeviceTest, ARankWithNothingToExchangeGoesWhereItsPeersAre) {
  InProcessHub hub(absl::Seconds(20));
  const auto statuses = testing::RunRanks(3, [&](int rank) -> absl::Status {
    std::vector<char> on_device(8, static_cast<char>('a' + rank));
    const auto is_on_device = [&](const void* data) {
      return data == nullptr ||
             (data >= on_device.data() && data < on_device.data() + 8);
    };
    auto factory = MakeHostDeviceFactory({.host = hub.MakeFactory(),
                                          .device = hub.MakeFactory(),
                                          .is_on_device = is_on_device});
    EVENSTEP_ASSIGN_OR_RETURN(auto group,
                              factory->Create("three", {0, 3}, rank));
    std::vector<int64_t> counts(3);
    if (rank < 2) counts[1 - rank] = 4;
    const bool has_any = rank < 2;
    EVENSTEP_RETURN_IF_ERROR(
        group->AllToAllv(has_any ? on_device.data() : nullptr, counts,
                         has_any ? on_device.data() + 4 : nullptr, counts));
    EXPECT_EQ(on_device[4], has_any ? 'b' - rank : 'c');
    // Rank 2 has no part of its own, but receives like the others.
    std::vector<int64_t> parts = {2, 2, 0};
    return group->AllGatherv(has_any ? on_device.data() : nullptr,
                             on_device.data() + 4, parts);
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

}  // namespace
}  // namespace evenstep::trainer
