#include "worker/agent/trainer_listener.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "gtest/gtest.h"

namespace evenstep::agent {
namespace {

void Connect(const UniqueFd& fd, const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
}

// The lowest descriptor that is free: the limit that allows no more.
rlim_t Used() { return static_cast<rlim_t>(UniqueFd(dup(0)).get()); }

TEST(TrainerListenerTest, ATrainerWaitsWhileTheAgentHasNoDescriptorLeft) {
  std::string folder = ::testing::TempDir() + "/listener-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  SteadyNotification connected[2];
  TrainerConnection kept[2];  // a closed one would leave its descriptor
  auto listener =
      TrainerListener::Open(folder + "/s", [&](const TrainerConnection& made) {
        kept[made.rank] = made;
        connected[made.rank].Notify();
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  UniqueFd fds[2];
  for (UniqueFd& fd : fds) {
    fd.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  rlimit full = before;
  full.rlim_cur = Used();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  // A waiting accept may hold a descriptor for the first of them.
  std::vector<std::unique_ptr<wire::FrameSocket>> trainers;
  for (int rank = 0; rank < 2; ++rank) {
    Connect(fds[rank], folder + "/s");
    trainers.push_back(
        std::make_unique<wire::FrameSocket>(fds[rank].Release()));
    trainer::v1::ToAgent hello;
    hello.mutable_hello()->set_rank(rank);
    ASSERT_TRUE(trainers.back()->Send(hello).ok());
  }
  const clock_t cpu = clock();
  absl::SleepFor(absl::Milliseconds(150));
  EXPECT_LT(clock() - cpu, CLOCKS_PER_SEC / 10) << "it spins";
  EXPECT_FALSE(connected[1].HasBeenNotified());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (auto& rank : connected) {
    EXPECT_TRUE(rank.WaitFor(absl::Seconds(10)));
  }
  listener->reset();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace evenstep::agent
