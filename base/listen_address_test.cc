#include "base/listen_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, OnlyLoopbackWithoutTheFlag) {
  for (const char* address :
       {"127.0.0.1:0", "127.1.2.3:80", "localhost:1", "[::1]:7070"}) {
    EXPECT_TRUE(
        CheckListenAddress("--listen", address, AllowRemote(false)).ok())
        << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example.org:1",
        "localhost.evil:1", "127.1:1", "127.0.0.1.nip.io:1"}) {
    const absl::Status refused =
        CheckListenAddress("--listen", address, AllowRemote(false));
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << address;
    EXPECT_THAT(
        std::string(refused.message()),
        AllOf(HasSubstr("--listen="), HasSubstr("--insecure-allow-remote")));
    EXPECT_TRUE(CheckListenAddress("--listen", address, AllowRemote(true)).ok())
        << address;
  }
}

TEST(ListenAddressTest, AHostAloneFollowsTheSameRule) {
  EXPECT_TRUE(CheckListenHost("--host", "::1", AllowRemote(false)).ok());
  EXPECT_TRUE(CheckListenHost("--host", "127.0.0.1", AllowRemote(false)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      CheckListenHost("--host", "::", AllowRemote(false))));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      CheckListenHost("--host", "", AllowRemote(false))));
}

TEST(ListenAddressTest, WhatIsNoAddressIsRefused) {
  for (const char* address :
       {"", "localhost", ":80", "host:", "host:x", "host:65536", "host:-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        CheckListenAddress("--listen", address, AllowRemote(true))))
        << address;
  }
}

}  // namespace
}  // namespace evenstep
