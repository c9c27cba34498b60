#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/gloo_communicator.h"

namespace evenstep::trainer {
namespace {

TEST(GlooTimeoutTest, ATimeOutThatIsSetLaterHoldsForGroupsThatAreThere) {
  MemoryRendezvousStore store;
  absl::Notification over;
  absl::Status late;
  const auto run = [&](int rank) {
    auto factory = MakeGlooFactory(
        {.listen_host = "127.0.0.1", .timeout = absl::Seconds(30)}, &store);
    ASSERT_TRUE(factory.ok()) << factory.status();
    auto group = (*factory)->Create("pair", {0, 2}, rank);
    ASSERT_TRUE(group.ok()) << group.status();
    (*factory)->SetTimeout(absl::Milliseconds(100));
    if (rank == 1) return over.WaitForNotification();
    late = (*group)->Barrier();
    over.Notify();
  };
  const absl::Time begin = absl::Now();
  std::thread peer(run, 1);
  run(0);
  peer.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
}

}  // namespace
}  // namespace evenstep::trainer
