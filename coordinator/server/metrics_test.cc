#include "coordinator/server/metrics.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

// The library alone takes two seconds.
TEST(MetricsServerTest, StoppingDoesNotWaitForTheServersNextLook) {
  const Metrics metrics("test");
  for (const char* listen : {"127.0.0.1:0", "0.0.0.0:0"}) {
    auto server = MetricsServer::Start(listen, metrics.registry());
    ASSERT_TRUE(server.ok()) << server.status();
    const absl::Time start = absl::Now();
    *server = nullptr;
    EXPECT_LT(absl::Now() - start, absl::Seconds(1)) << listen;
  }
}

}  // namespace
}  // namespace evenstep::coordinator
