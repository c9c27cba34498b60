#include "worker/trainer/loop/testing/fake_agent.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/comm/emulated_link.h"
#include "worker/trainer/job/fault.h"

namespace evenstep::trainer {
namespace {

constexpr int64_t kGeneration = 1;

UniqueFd Listen(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(
      ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_EQ(::listen(fd.get(), 8), 0);
  return fd;
}

}  // namespace

FakeAgent::FakeAgent(FakeAgentOptions options)
    : options_(std::move(options)),
      world_(options_.spec.ranks),
      socket_path_(options_.folder + "/agent.sock"),
      listener_(Listen(socket_path_)),
      pids_(world_, 0),
      sockets_(world_),
      coordinator_(kGeneration, world_, options_.layout,
                   [this](int rank, const wire::StepPlan& plan) {
                     v1::ToTrainer message;
                     *message.mutable_plan() = wire::ToProto(plan);
                     Send(rank, message);
                   }) {}

FakeAgent::~FakeAgent() {
  for (int rank = 0; rank < world_; ++rank) {
    if (pids_[rank] > 0) ::kill(pids_[rank], SIGKILL);
    if (sockets_[rank] != nullptr) sockets_[rank]->Shutdown();
  }
  for (std::thread& reader : readers_) reader.join();
  for (int rank = 0; rank < world_; ++rank) Wait(rank);
}

void FakeAgent::Start() {
  for (int rank = 0; rank < world_; ++rank) Spawn(rank);
  for (int i = 0; i < world_; ++i) Greet();
  for (int rank = 0; rank < world_; ++rank) {
    readers_.emplace_back([this, rank] { ReadLoop(rank); });
  }
}

void FakeAgent::Spawn(int rank) {
  const std::string rank_text = absl::StrCat(rank);
  const std::string fault = absl::StrCat(kFaultVariable, "=", options_.fault);
  const std::string link =
      absl::StrCat(kEmulatedLinkVariable, "=", options_.emulated_link);
  const char* argv[] = {options_.trainer_binary.c_str(),
                        "--socket",
                        socket_path_.c_str(),
                        "--rank",
                        rank_text.c_str(),
                        nullptr};
  std::vector<char*> environment = {const_cast<char*>(fault.c_str()),
                                    const_cast<char*>(link.c_str())};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  ASSERT_EQ(::posix_spawn(&pids_[rank], argv[0], nullptr, nullptr,
                          const_cast<char**>(argv), environment.data()),
            0)
      << options_.trainer_binary;
}

// Ranks connect in any order; the hello says who it is.
void FakeAgent::Greet() {
  auto socket = std::make_unique<wire::FrameSocket>(
      ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  v1::ToAgent hello;
  ASSERT_TRUE(socket->Receive(&hello).ok());
  const int rank = hello.hello().rank();
  EXPECT_EQ(hello.hello().pid(), pids_[rank]);
  v1::ToTrainer message;
  v1::Start* start = message.mutable_start();
  start->set_job_id("job");
  start->set_attempt(1);
  start->set_generation(kGeneration);
  start->set_rank(rank);
  start->set_world(world_);
  start->add_ranks_per_node(world_);
  *start->mutable_spec() = wire::ToProto(options_.spec);
  start->set_listen_host("127.0.0.1");
  start->set_output_dir(options_.folder);
  start->set_threads(1);
  sockets_[rank] = std::move(socket);
  Send(rank, message);
}

void FakeAgent::ReadLoop(int rank) {
  v1::ToAgent message;
  while (sockets_[rank]->Receive(&message).ok()) {
    if (message.has_set()) {
      EXPECT_TRUE(store_.Set(message.set().key(), message.set().value()).ok());
    } else if (message.has_get()) {
      AnswerGet(rank, message.get());
    } else {
      coordinator_.OnMessage(rank, message);
    }
  }
}

// A trainer asks for one key at a time, so its reader may wait for it.
void FakeAgent::AnswerGet(int rank, const v1::RendezvousGet& get) {
  const auto value = store_.Get(get.key(), absl::Milliseconds(get.wait_ms()));
  v1::ToTrainer message;
  message.mutable_value()->set_request_id(get.request_id());
  message.mutable_value()->set_found(value.ok());
  if (value.ok()) message.mutable_value()->set_value(*value);
  Send(rank, message);
}

int FakeAgent::Wait(int rank) {
  if (pids_[rank] <= 0) return 0;
  int status = 0;
  ::waitpid(pids_[rank], &status, 0);
  pids_[rank] = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void FakeAgent::Send(int rank, const v1::ToTrainer& message) {
  sockets_[rank]->Send(message).IgnoreError();
}

void FakeAgent::HangUp(int rank) { sockets_[rank]->Shutdown(); }

}  // namespace evenstep::trainer
