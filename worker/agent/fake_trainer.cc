// A trainer for the agent's tests: speaks the socket's protocol and then does
// what the job's name says. Ends when its socket does, except where noted.

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "evenstep/trainer/v1/trainer.pb.h"
#include "wire/frame.h"
#include "wire/testing/message_mutator.h"

namespace evenstep::agent {
namespace {

using trainer::v1::ToAgent;
using trainer::v1::ToTrainer;

constexpr int kSpoiledFrames = 10;

class FakeTrainer {
 public:
  FakeTrainer(int fd, int rank) : fd_(fd), socket_(fd), rank_(rank) {}

  int Run() {
    ToAgent hello;
    hello.mutable_hello()->set_rank(rank_);
    hello.mutable_hello()->set_pid(getpid());
    Send(hello);
    ToTrainer first;
    if (!socket_.Receive(&first).ok() || !first.has_start()) return 9;
    start_ = first.start();
    const std::string& name = start_.spec().name();
    printf("rank %d of %d runs %s\n", rank_, start_.world(), name.c_str());
    fflush(stdout);
    if (name == "chaos") return Chaos();
    if (name == "crash") return Crash();
    if (name == "exit3") return 3;
    if (name == "fail") return Fail();
    if (name == "flood") return Flood();
    if (name == "hang" || name == "orphan") return Hang();
    if (name == "large") return SayTooMuch();
    if (name == "keep") return Keep();
    if (name == "listen") return Listen();
    if (name == "rendezvous") return Rendezvous();
    if (name == "silent") return 0;  // without Finished
    return TrainUntilTold();
  }

 private:
  void Send(const ToAgent& message) {
    if (mutator_ != nullptr) return SendSpoiled(message);
    if (!socket_.Send(message).ok()) _exit(8);
  }

  // Honest up to a random frame, then up to ten that are not. One rank only:
  // the other one is honest.
  int Chaos() {
    const uint64_t seed = start_.spec().seed();
    if (static_cast<int>(seed % 2) == rank_) {
      mutator_ = std::make_unique<wire::testing::MessageMutator>(seed);
      num_honest_ = mutator_->Below(6);
    }
    return TrainUntilTold();
  }

  void SendSpoiled(const ToAgent& message) {
    sent_.push_back(message);
    if (num_honest_-- > 0 || num_spoiled_ >= kSpoiledFrames) {
      (void)socket_.Send(message);  // the agent may have had enough
      return;
    }
    for (int i = 1 + mutator_->Below(4); i > 0; --i) {
      ToAgent spoiled = sent_[mutator_->Below(static_cast<int>(sent_.size()))];
      if (mutator_->OneIn(8)) spoiled = SomeFrame();
      mutator_->ChangeOneField(&spoiled);
      if (mutator_->OneIn(3)) mutator_->ChangeOneField(&spoiled);
      printf("spoiled\n");
      fflush(stdout);
      (void)socket_.Send(spoiled);
      ++num_spoiled_;
    }
    if (mutator_->OneIn(20)) SendGarbage();
    if (mutator_->OneIn(20)) _exit(mutator_->Below(3));
    if (!mutator_->OneIn(4)) (void)socket_.Send(message);
  }

  // Of the kinds that this trainer does not send by itself.
  ToAgent SomeFrame() {
    ToAgent frame;
    switch (mutator_->Below(5)) {
      case 0:
        frame.mutable_set()->set_key("key");
        frame.mutable_set()->set_value("value");
        break;
      case 1:
        frame.mutable_get()->set_key("key");
        frame.mutable_get()->set_wait_ms(10);
        break;
      case 2:
        frame.mutable_failure()->set_reason("NOT_FINITE");
        break;
      case 3:
        frame.mutable_costs()->set_linear_ns_per_token(1);
        break;
      default:
        frame.mutable_finished()->set_steps_done(2);
    }
    return frame;
  }

  // Not a frame at all.
  void SendGarbage() {
    char bytes[64];
    for (char& byte : bytes) byte = static_cast<char>(mutator_->Below(256));
    (void)send(fd_, bytes, sizeof(bytes), MSG_NOSIGNAL);
  }

  int Finish(bool stopped) {
    ToAgent message;
    message.mutable_finished()->set_steps_done(steps_);
    message.mutable_finished()->set_stopped(stopped);
    if (rank_ == 0 && !stopped) {
      message.mutable_finished()->set_weights_path(start_.output_dir() +
                                                   "/weights.safetensors");
    }
    Send(message);
    return 0;
  }

  int Crash() {
    fprintf(stderr, "about to crash\n");
    fflush(stderr);
    signal(SIGSEGV, SIG_DFL);  // a sanitizer would exit with a status
    raise(SIGSEGV);
    return 7;
  }

  int Fail() {
    ToAgent message;
    message.mutable_failure()->set_reason("NOT_FINITE");
    message.mutable_failure()->set_message("loss of step 1 is not finite");
    message.mutable_failure()->set_step(1);
    Send(message);
    return 1;
  }

  int Flood() {
    for (int i = 0; i < 5000; ++i) printf("line %d\n", i);
    printf("the end, without a line end");
    fflush(stdout);
    return Finish(false);
  }

  // Neither signals nor the socket's end make it leave.
  int Hang() {
    signal(SIGTERM, SIG_IGN);
    while (true) pause();
  }

  // More than the coordinator takes in one message.
  int SayTooMuch() {
    ToAgent message = LengthsOf(0);
    for (int64_t i = 0; i < 3000000; ++i) {
      message.mutable_lengths()->add_sample_ids((int64_t{1} << 50) + i);
    }
    Send(message);
    return TrainUntilTold();
  }

  // Told to abandon, it writes weights for much longer than a stop may take.
  int Keep() {
    ToTrainer order;
    while (!order.has_abandon()) {
      if (!socket_.Receive(&order).ok()) return 9;
    }
    ToAgent message;
    for (int i = 1; i <= 20; ++i) {
      message.mutable_writing_weights()->set_bytes_written(i);
      Send(message);
      usleep(50'000);
    }
    message.mutable_finished()->set_weights_path(
        start_.output_dir() + "/of-rank-" +
        std::to_string(order.abandon().weights_rank()));
    message.mutable_finished()->set_weights_steps(2);
    Send(message);
    return 20;
  }

  // Says what it may miss of its agent, and what it hears.
  int Listen() {
    printf("silence %lld\n", static_cast<long long>(start_.agent_silence_ms()));
    fflush(stdout);
    ToTrainer message;
    for (int heard = 0; heard < 3;) {
      if (!socket_.Receive(&message).ok()) return 9;
      heard += message.has_keep_alive() ? 1 : 0;
    }
    printf("kept alive\n");
    fflush(stdout);
    return Finish(false);
  }

  int Rendezvous() {
    ToAgent set;
    set.mutable_set()->set_key("address/" + std::to_string(rank_));
    set.mutable_set()->set_value("value of " + std::to_string(rank_));
    Send(set);
    ToAgent get;
    get.mutable_get()->set_request_id(17);
    get.mutable_get()->set_key("address/" + std::to_string(1 - rank_));
    get.mutable_get()->set_wait_ms(10000);
    Send(get);
    ToTrainer answer;
    while (!answer.has_value()) {  // the agent also says that it runs
      if (!socket_.Receive(&answer).ok()) return 9;
    }
    printf("got %s\n", answer.value().found() ? answer.value().value().c_str()
                                              : answer.value().error().c_str());
    printf("no line end");
    return answer.value().request_id() == 17 ? Finish(false) : 6;
  }

  // One step per plan; "finish" leaves after spec.steps.
  int TrainUntilTold() {
    ToAgent message;
    message.mutable_data()->set_num_samples(100);
    Send(message);
    Send(LengthsOf(0));
    message.mutable_started()->set_emulated_link("EMULATED by the fake");
    Send(message);
    ToTrainer order;
    while (socket_.Receive(&order).ok()) {
      if (order.has_stop()) return Finish(true);
      if (order.has_abandon()) return 1;
      if (!order.has_plan()) continue;
      ReportStep(order.plan().step());
      if (++steps_ == start_.spec().steps()) return Finish(false);
    }
    return 5;
  }

  ToAgent LengthsOf(int64_t step) const {
    ToAgent message;
    message.mutable_lengths()->set_generation(start_.generation());
    message.mutable_lengths()->set_step(step);
    message.mutable_lengths()->set_rank(rank_);
    return message;
  }

  void ReportStep(int64_t step) {
    ToAgent message;
    message.mutable_step()->set_generation(start_.generation());
    message.mutable_step()->set_step(step);
    message.mutable_step()->set_rank(rank_);
    Send(message);
    ToAgent old = LengthsOf(step);
    old.mutable_lengths()->set_generation(start_.generation() - 1);
    Send(old);  // of another generation: to be dropped
  }

  const int fd_;  // the socket's
  wire::FrameSocket socket_;
  const int rank_;
  trainer::v1::Start start_;
  int64_t steps_ = 0;
  std::unique_ptr<wire::testing::MessageMutator> mutator_;  // of `chaos`
  int num_honest_ = 0;
  int num_spoiled_ = 0;
  std::vector<ToAgent> sent_;
};

int Connect(const char* path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
      0) {
    perror("connect");
    _exit(4);
  }
  return fd;
}

}  // namespace
}  // namespace evenstep::agent

int main(int argc, char** argv) {
  if (argc != 5 || strcmp(argv[1], "--socket") != 0 ||
      strcmp(argv[3], "--rank") != 0) {
    fprintf(stderr, "usage: fake_trainer --socket PATH --rank R\n");
    return 2;
  }
  evenstep::agent::FakeTrainer trainer(evenstep::agent::Connect(argv[2]),
                                       atoi(argv[4]));
  return trainer.Run();
}
