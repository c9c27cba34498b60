#include "worker/trainer/comm/gloo_communicator.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/testing/communicator_suite.h"

namespace evenstep::trainer {
namespace {

using testing::CommunicatorTest;
using testing::SuiteBackEnd;
using testing::SuiteFabric;

// Over loopback.
class GlooFabric : public SuiteFabric {
 public:
  explicit GlooFabric(absl::Duration timeout) : timeout_(timeout) {}
  absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory(
      int /*rank*/) override {
    return MakeGlooFactory({"127.0.0.1", timeout_}, &store_);
  }

 private:
  const absl::Duration timeout_;
  MemoryRendezvousStore store_;
};

INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorTest,
                         ::testing::Values(SuiteBackEnd{
                             "Gloo", [](absl::Duration timeout) {
                               return std::unique_ptr<SuiteFabric>(
                                   new GlooFabric(timeout));
                             }}));

TEST(GlooFactoryTest, BadOptionsAreRefusedWithTheReason) {
  MemoryRendezvousStore store;
  EXPECT_EQ(MakeGlooFactory({"", absl::Seconds(1)}, &store).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGlooFactory({"127.0.0.1", absl::ZeroDuration()}, &store)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeGlooFactory({"no.such.host.invalid", absl::Seconds(1)}, &store)
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

// A rank that is still reading its data is not lost, and the ranks that are
// there do not wait in connections, which Gloo limits by itself.
TEST(GlooFactoryTest, AStartWaitsForTheLastRankLongerThanACollective) {
  // Says so often that a key is not there.
  class LateStore : public MemoryRendezvousStore {
   public:
    absl::StatusOr<std::string> Get(const std::string& key,
                                    absl::Duration wait) override {
      if (late_-- > 0) return absl::DeadlineExceededError("not yet");
      return MemoryRendezvousStore::Get(key, wait);
    }

   private:
    std::atomic<int> late_ = 10;
  };
  LateStore store;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&store, rank] {
      auto factory = MakeGlooFactory(
          {"127.0.0.1", absl::Seconds(20), absl::Minutes(1)}, &store);
      ASSERT_TRUE(factory.ok()) << factory.status();
      EXPECT_EQ((*factory)->Create("group", {0, 3}, rank).status(),
                absl::OkStatus());
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// A store whose generation is over while a rank waits for its peer's address.
TEST(GlooFactoryTest, AnEndedRendezvousIsPassedOn) {
  class EndedStore : public MemoryRendezvousStore {
    absl::StatusOr<std::string> Get(const std::string&,
                                    absl::Duration) override {
      return absl::AbortedError("generation 3 is over");
    }
  };
  EndedStore store;
  auto factory = MakeGlooFactory({"127.0.0.1", absl::Seconds(1)}, &store);
  ASSERT_TRUE(factory.ok()) << factory.status();
  EXPECT_EQ((*factory)->Create("group", {0, 2}, 0).status(),
            absl::AbortedError("generation 3 is over"));
}

}  // namespace
}  // namespace evenstep::trainer
