#include "rpc/server.h"

#include "evenstep/v1/agent.grpc.pb.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"

namespace evenstep::rpc {
namespace {

TEST(CheckListenAddressTest, OnlyLoopbackWithoutTheFlag) {
  for (const char* address :
       {"127.0.0.1:0", "127.1.2.3:80", "localhost:1", "[::1]:7070"}) {
    EXPECT_TRUE(CheckListenAddress(address, false).ok()) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1",
                              "127.example.org:1", "localhost.evil:1"}) {
    const absl::Status refused = CheckListenAddress(address, false);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << address;
    EXPECT_NE(refused.message().find("--insecure-allow-remote"),
              absl::string_view::npos);
    EXPECT_TRUE(CheckListenAddress(address, true).ok()) << address;
  }
}

TEST(CheckListenAddressTest, WhatIsNoAddressIsRefused) {
  for (const char* address :
       {"", "localhost", ":80", "host:", "host:x", "host:65536", "host:-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckListenAddress(address, true)))
        << address;
  }
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
