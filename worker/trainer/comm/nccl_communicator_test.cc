#include "worker/trainer/comm/nccl_communicator.h"

#include <deque>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/testing/communicator_suite.h"
#include "worker/trainer/comm/testing/fake_nccl.h"

namespace evenstep::trainer {
namespace {

using testing::CommunicatorTest;
using testing::FakeNccl;
using testing::NcclFaults;
using testing::SuiteBackEnd;
using testing::SuiteFabric;

constexpr int kMaxRanks = 8;

// The fake, every rank with a table of its own. Whatever a test does, nothing
// may be left over.
class NcclFabric : public SuiteFabric {
 public:
  NcclFabric(absl::Duration timeout, const NcclFaults& faults)
      : timeout_(timeout), faults_(kMaxRanks, faults) {
    for (NcclFaults& of_rank : faults_) {
      tables_.push_back(nccl_.MakeTable(&of_rank));
    }
  }
  ~NcclFabric() override {
    EXPECT_EQ(nccl_.num_live(), 0);
    EXPECT_EQ(nccl_.num_allocations(), 0);
  }
  absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory(
      int rank) override {
    NcclOptions options;
    options.timeout = timeout_;
    options.end_process = [](absl::string_view why) {
      ADD_FAILURE() << std::string(why);
    };
    return MakeNcclFactory(options, tables_[rank].get(), &store_);
  }

 private:
  const absl::Duration timeout_;
  FakeNccl nccl_;
  std::deque<NcclFaults> faults_;
  std::vector<std::unique_ptr<NcclTable>> tables_;
  MemoryRendezvousStore store_;
};

template <int kPolls>
std::unique_ptr<SuiteFabric> MakeFabric(absl::Duration timeout) {
  NcclFaults faults;
  faults.init_polls = kPolls;
  faults.enqueue_polls = kPolls;
  return std::make_unique<NcclFabric>(timeout, faults);
}

INSTANTIATE_TEST_SUITE_P(
    Nccl, CommunicatorTest,
    ::testing::Values(SuiteBackEnd{"Prompt", &MakeFabric<0>},
                      SuiteBackEnd{"AlwaysInProgressAtFirst", &MakeFabric<3>}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evenstep::trainer
