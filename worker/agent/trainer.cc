#include "worker/agent/trainer.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_budget.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace evenstep::agent {
namespace {

constexpr size_t kMaxOutgoing = 4096;
// Of frames that wait for the loop.
constexpr int64_t kMaxWaitingBytes = 64 << 20;
// A dead process's socket is at its end at once, unless a stranger holds it.
constexpr absl::Duration kSocketDrain = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Start(
    const TrainerOptions& options, EventLoop& loop,
    TrainerCallbacks callbacks) {
  EVENSTEP_ASSIGN_OR_RETURN(
      SpawnedProcess process,
      Spawn(options.binary, {"--socket", options.socket_path, "--rank",
                             absl::StrCat(options.rank)}));
  return std::unique_ptr<Trainer>(
      new Trainer(std::move(process), options, loop, std::move(callbacks)));
}

Trainer::Trainer(SpawnedProcess process, const TrainerOptions& options,
                 EventLoop& loop, TrainerCallbacks callbacks)
    : pid_(process.pid),
      start_ticks_(process.start_ticks),
      loop_(loop),
      callbacks_(std::make_shared<TrainerCallbacks>(std::move(callbacks))),
      output_(std::move(process.output), std::move(process.error),
              options.log_path, options.lines_per_second,
              [callbacks = callbacks_, &loop](OutputLines lines) {
                loop.Post([callbacks, lines = std::move(lines)] {
                  callbacks->on_lines(lines);
                });
              }),
      waiter_([this] { WaitForEnd(); }) {
  pthread_setname_np(waiter_.native_handle(), "trainer-wait");
}

Trainer::~Trainer() {
  Kill();
  waiter_.join();
}

absl::Status Trainer::Attach(std::shared_ptr<wire::FrameSocket> socket) {
  absl::MutexLock lock(&mutex_);
  if (closed_ || socket_ != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "process ", pid_, closed_ ? " has ended" : " is connected already"));
  }
  socket_ = std::move(socket);
  reader_ = std::thread([this, s = socket_.get()] { ReadFrames(s); });
  writer_ = std::thread([this, s = socket_.get()] { WriteFrames(s); });
  pthread_setname_np(reader_.native_handle(), "trainer-read");
  pthread_setname_np(writer_.native_handle(), "trainer-write");
  return absl::OkStatus();
}

absl::Status Trainer::Send(trainer::v1::ToTrainer message) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::OkStatus();  // on_end tells
  if (outgoing_.size() >= kMaxOutgoing) {
    return absl::ResourceExhaustedError(
        absl::StrCat("process ", pid_, " does not read: ", outgoing_.size(),
                     " messages wait for it"));
  }
  outgoing_.push_back(std::move(message));
  return absl::OkStatus();
}

void Trainer::KeepAlive() {
  absl::MutexLock lock(&mutex_);
  if (closed_ || !outgoing_.empty()) return;
  outgoing_.emplace_back().mutable_keep_alive();
}

void Trainer::Kill() {
  absl::MutexLock lock(&mutex_);
  if (!released_) KillGroup(pid_);
}

void Trainer::WaitForEnd() {
  AwaitExit(pid_);
  TrainerEnd end;
  {
    absl::MutexLock lock(&mutex_);
    end.process = Reap(pid_);
    released_ = true;
  }
  AwaitGroupGone(pid_);
  output_.Finish();
  CloseSocket();
  end.last_words = output_.LastWords();
  loop_.Post([callbacks = callbacks_, end] { callbacks->on_end(end); });
}

void Trainer::CloseSocket() {
  std::shared_ptr<wire::FrameSocket> socket;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    socket = socket_;
  }
  if (socket == nullptr) return;
  reader_done_.WaitFor(kSocketDrain);
  socket->Shutdown();
  reader_.join();
  writer_.join();
}

void Trainer::ReadFrames(wire::FrameSocket* socket) {
  const auto waiting = std::make_shared<ByteBudget>(kMaxWaitingBytes);
  auto frame = std::make_shared<trainer::v1::ToAgent>();
  absl::Status status;
  while ((status = socket->Receive(frame.get())).ok()) {
    const auto bytes = static_cast<int64_t>(frame->ByteSizeLong());
    waiting->Take(bytes);  // a trainer that says too much waits in its socket
    const bool posted =
        loop_.Post([callbacks = callbacks_, frame, waiting, bytes] {
          waiting->Give(bytes);
          callbacks->on_frame(*frame);
        });
    if (!posted) waiting->Give(bytes);
    frame = std::make_shared<trainer::v1::ToAgent>();
  }
  if (!absl::IsUnavailable(status)) {
    Log(LogLevel::kWarning, "trainer_socket_broken",
        {{"pid", pid_}, {"status", status}});
    Kill();  // it cannot be understood any more
  }
  reader_done_.Notify();
}

void Trainer::WriteFrames(wire::FrameSocket* socket) {
  trainer::v1::ToTrainer message;
  while (TakeOutgoing(&message)) {
    if (!socket->Send(message).ok()) return;  // the waiter sees the end
  }
}

bool Trainer::TakeOutgoing(trainer::v1::ToTrainer* message) {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !outgoing_.empty();
  };
  mutex_.Await(absl::Condition(&ready));
  if (closed_) return false;
  *message = std::move(outgoing_.front());
  outgoing_.pop_front();
  return true;
}

}  // namespace evenstep::agent
