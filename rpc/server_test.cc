#include "rpc/server.h"

#include "gtest/gtest.h"

namespace evenstep::rpc {
namespace {

TEST(ServerTest, OnlyLoopbackIsServedWithoutTheFlag) {
  StreamRegistry streams;
  const auto server =
      Server::Start({.listen_address = "0.0.0.0:0"}, streams, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(server.status())) << server.status();
}

TEST(ServerTest, ATakenPortIsAnError) {
  StreamRegistry streams;
  auto first = Server::Start({}, streams, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT((*first)->port(), 0);
  StreamRegistry other_streams;
  const auto second =
      Server::Start({.listen_address = (*first)->address()}, other_streams, {});
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

}  // namespace
}  // namespace evenstep::rpc
