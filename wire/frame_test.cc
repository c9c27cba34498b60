#include "wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "evenstep/v1/plan.pb.h"

namespace evenstep::wire {
namespace {

using ::testing::HasSubstr;

v1::LengthReport Report(int64_t step, int num_samples) {
  v1::LengthReport report;
  report.set_step(step);
  for (int i = 0; i < num_samples; ++i) {
    report.add_sample_ids(i);
    report.add_lengths(1 + i);
  }
  return report;
}

// A raw end and a FrameSocket.
struct SocketPair {
  SocketPair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    raw_ = ends[0];
    socket_ = std::make_unique<FrameSocket>(ends[1]);
  }
  ~SocketPair() { CloseRaw(); }

  void CloseRaw() {
    if (raw_ >= 0) close(raw_);
    raw_ = -1;
  }
  void WriteRaw(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n =
          send(raw_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n < 0) return;
      done += static_cast<size_t>(n);
    }
  }

  int raw_ = -1;
  std::unique_ptr<FrameSocket> socket_;
};

class FrameTest : public ::testing::Test, protected SocketPair {};

TEST_F(FrameTest, FramesArriveWholeAndInOrder) {
  FrameSocket sender(raw_);
  raw_ = -1;
  std::thread writer([&] {
    for (int step = 0; step < 50; ++step) {
      EXPECT_TRUE(sender.Send(Report(step, step * 100)).ok());
    }
  });
  for (int step = 0; step < 50; ++step) {
    v1::LengthReport got;
    ASSERT_TRUE(socket_->Receive(&got).ok());
    EXPECT_EQ(got.step(), step);
    EXPECT_EQ(got.lengths_size(), step * 100);
  }
  writer.join();
}

TEST_F(FrameTest, LengthIsFourBytesBigEndian) {
  v1::LengthReport report = Report(3, 0);
  ASSERT_TRUE(socket_->Send(report).ok());
  char bytes[16];
  const ssize_t got = read(raw_, bytes, sizeof(bytes));
  const std::string body = report.SerializeAsString();
  ASSERT_EQ(got, static_cast<ssize_t>(4 + body.size()));
  EXPECT_EQ(std::string(bytes, 4),
            std::string({0, 0, 0, static_cast<char>(body.size())}));
}

TEST_F(FrameTest, FrameInSingleBytesIsPutTogether) {
  const std::string body = Report(9, 3).SerializeAsString();
  std::string frame = {0, 0, 0, static_cast<char>(body.size())};
  frame += body;
  std::thread writer([&] {
    for (const char c : frame) WriteRaw(std::string(1, c));
  });
  v1::LengthReport got;
  EXPECT_TRUE(socket_->Receive(&got).ok());
  EXPECT_EQ(got.step(), 9);
  writer.join();
}

TEST_F(FrameTest, WritersOnSeveralThreadsDoNotMixTheirFrames) {
  FrameSocket sender(raw_);
  raw_ = -1;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&sender, writer] {
      for (int i = 0; i < 25; ++i) {
        EXPECT_TRUE(sender.Send(Report(writer, 500)).ok());
      }
    });
  }
  int count[4] = {};
  for (int i = 0; i < 100; ++i) {
    v1::LengthReport got;
    ASSERT_TRUE(socket_->Receive(&got).ok());
    EXPECT_EQ(got.lengths_size(), 500);
    ++count[got.step()];
  }
  for (const int frames : count) EXPECT_EQ(frames, 25);
  for (std::thread& writer : writers) writer.join();
}

TEST_F(FrameTest, CloseBetweenFramesIsUnavailableAndInsideIsDataLoss) {
  WriteRaw(std::string({0, 0, 0, 0}));  // an empty message
  CloseRaw();
  v1::LengthReport got;
  EXPECT_TRUE(socket_->Receive(&got).ok());
  EXPECT_EQ(socket_->Receive(&got).code(), absl::StatusCode::kUnavailable);
}

TEST_F(FrameTest, CutFramesAreDataLoss) {
  for (const std::string& bytes :
       {std::string({0, 0}), std::string({0, 0, 0, 9}),
        std::string({0, 0, 0, 9, 8, 1})}) {
    SocketPair pair;
    pair.WriteRaw(bytes);
    pair.CloseRaw();
    v1::LengthReport got;
    EXPECT_EQ(pair.socket_->Receive(&got).code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(FrameTest, OversizedAndUnreadableFramesAreDataLoss) {
  WriteRaw("\x04\x01\x01\x01");  // beyond 64 MiB
  v1::LengthReport got;
  const absl::Status status = socket_->Receive(&got);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("67174657 bytes"));

  SocketPair other;
  other.WriteRaw(std::string({0, 0, 0, 2, '\xff', '\xff'}));
  EXPECT_EQ(other.socket_->Receive(&got).code(), absl::StatusCode::kDataLoss);
}

TEST_F(FrameTest, TooLargeAMessageIsRefusedAndTheSocketStaysUsable) {
  v1::StepPlan plan;
  plan.set_policy(std::string(kMaxFrameBytes, 'x'));
  EXPECT_EQ(socket_->Send(plan).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(socket_->Send(Report(1, 1)).ok());
}

TEST_F(FrameTest, SendToAClosedSocketIsUnavailableWithoutASignal) {
  signal(SIGPIPE, SIG_DFL);
  CloseRaw();
  EXPECT_EQ(socket_->Send(Report(1, 1)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(FrameTest, ShutdownWakesABlockedReceive) {
  absl::Status status;
  std::thread reader([&] {
    v1::LengthReport got;
    status = socket_->Receive(&got);
  });
  socket_->Shutdown();
  reader.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(socket_->Send(Report(1, 1)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(FrameTest, ShutdownWakesABlockedSend) {
  absl::Status status;
  std::thread writer([&] {
    while (status.ok()) status = socket_->Send(Report(1, 100000));
  });
  socket_->Shutdown();
  writer.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(FrameTest, InterruptedCallsGoOn) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: recv gives EINTR
  sigaction(SIGUSR1, &action, &before);
  v1::LengthReport got;
  absl::Status status;
  std::thread reader([&] { status = socket_->Receive(&got); });
  for (int i = 0; i < 100; ++i) {
    pthread_kill(reader.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  FrameSocket sender(raw_);
  raw_ = -1;
  EXPECT_TRUE(sender.Send(Report(5, 2)).ok());
  reader.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(got.step(), 5);
}

// What a reader has to make of `bytes`: how many messages, and the status after
// the last.
std::pair<int, absl::StatusCode> Expected(absl::string_view bytes) {
  int num_messages = 0;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return {num_messages, absl::StatusCode::kDataLoss};
    size_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | uint8_t(bytes[i]);
    bytes.remove_prefix(4);
    if (size > bytes.size() ||
        !v1::StepPlan().ParseFromArray(bytes.data(), static_cast<int>(size))) {
      return {num_messages, absl::StatusCode::kDataLoss};
    }
    bytes.remove_prefix(size);
    ++num_messages;
  }
  return {num_messages, absl::StatusCode::kUnavailable};
}

TEST_F(FrameTest, RandomBytesNeverCrashTheReader) {
  std::mt19937 random(11);
  int num_read = 0;
  for (int round = 0; round < 300; ++round) {
    SocketPair pair;
    v1::StepPlan plan;
    plan.set_step(round);
    const std::string body = plan.SerializeAsString();
    std::string bytes;
    for (int sound = random() % 3; sound > 0; --sound) {
      bytes += std::string{0, 0, 0, static_cast<char>(body.size())} + body;
    }
    bytes +=
        std::string{0, 0, round % 4 == 0 ? static_cast<char>(random()) : '\0',
                    static_cast<char>(random() % 64)};
    for (int i = random() % 80; i > 0; --i) {
      bytes += static_cast<char>(random());
    }
    pair.WriteRaw(bytes);
    pair.CloseRaw();
    v1::StepPlan got;
    int num_messages = 0;
    absl::Status status;
    while ((status = pair.socket_->Receive(&got)).ok()) ++num_messages;
    EXPECT_EQ(std::pair(num_messages, status.code()), Expected(bytes))
        << round << ": " << status;
    num_read += num_messages;
  }
  EXPECT_GT(num_read, 200);
}

}  // namespace
}  // namespace evenstep::wire
