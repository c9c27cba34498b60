#include "rpc/server.h"

#include "evenstep/v1/agent.grpc.pb.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"

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

TEST(CallUnaryTest, AnUnreachableServerIsUnavailableWithinTheBudget) {
  v1::AgentService::Stub stub(MakeChannel("127.0.0.1:1"));
  const absl::Time start = absl::Now();
  int attempts = 0;
  const auto result = CallUnary<v1::RendezvousResponse>(
      {.deadline = absl::Seconds(1),
       .repeat = Repeat::kWhileUnavailable,
       .budget = absl::Milliseconds(300)},
      [&](auto* context, auto* response) {
        ++attempts;
        return stub.Rendezvous(context, v1::RendezvousRequest(), response);
      });
  EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  EXPECT_GE(attempts, 2);
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
}

TEST(CallUnaryTest, CallsThatMayNotBeRepeatedAreTriedOnce) {
  v1::AgentService::Stub stub(MakeChannel("127.0.0.1:1"));
  int attempts = 0;
  const auto result =
      CallUnary<v1::RendezvousResponse>({}, [&](auto* context, auto* response) {
        ++attempts;
        return stub.Rendezvous(context, v1::RendezvousRequest(), response);
      });
  EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace evenstep::rpc
