#include "worker/trainer/comm/gloo_communicator.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

// A rank that is still reading its data is not lost.
TEST(GlooFactoryTest, AStartWaitsForPeersLongerThanACollective) {
  MemoryRendezvousStore store;
  const auto make_group = [&](int rank, absl::Duration start_wait) {
    auto factory = MakeGlooFactory(
        {"127.0.0.1", absl::Milliseconds(300), start_wait}, &store);
    if (!factory.ok()) return factory.status();
    return (*factory)
        ->Create(absl::StrCat("group ", absl::FormatDuration(start_wait)),
                 {0, 2}, rank)
        .status();
  };
  const absl::Status alone = make_group(0, absl::ZeroDuration());
  EXPECT_TRUE(absl::IsDeadlineExceeded(alone)) << alone;
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(900));
    EXPECT_EQ(make_group(1, absl::Minutes(1)), absl::OkStatus());
  });
  EXPECT_EQ(make_group(0, absl::Minutes(1)), absl::OkStatus());
  late.join();
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
