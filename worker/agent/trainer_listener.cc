#include "worker/agent/trainer_listener.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "evenstep/trainer/v1/trainer.pb.h"

namespace evenstep::agent {
namespace {

constexpr int kHelloSeconds = 5;
constexpr int kBacklog = 128;
// While the process or the machine has no descriptor or memory left.
constexpr absl::Duration kFullRetry = absl::Milliseconds(100);

void SetReceiveTimeout(int fd, int seconds) {
  const timeval limit{seconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

pid_t PeerPid(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid
                                                                    : -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainerListener>> TrainerListener::Open(
    const std::string& path, Callback callback) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path ", path, " has ", path.size(),
                     " characters; at most ", sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a socket", path);
  unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
          0 ||
      listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, "cannot listen on", path);
  }
  return std::unique_ptr<TrainerListener>(
      new TrainerListener(path, std::move(fd), std::move(callback)));
}

TrainerListener::TrainerListener(std::string path, UniqueFd fd,
                                 Callback callback)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      callback_(std::move(callback)),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "trainer-accept");
}

TrainerListener::~TrainerListener() {
  stop_.Notify();
  shutdown(fd_.get(), SHUT_RDWR);  // wakes accept
  thread_.join();
  unlink(path_.c_str());
}

void TrainerListener::Run() {
  while (true) {
    UniqueFd connection(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      Greet(std::move(connection));
    } else if (!MayTryAgain(errno)) {
      return;
    }
  }
}

// False: the listener is closing, or its socket is broken.
bool TrainerListener::MayTryAgain(int error) {
  if (error == EINTR || error == ECONNABORTED) return true;
  const bool full =
      error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!full) {
    if (!stop_.HasBeenNotified()) {
      Log(LogLevel::kError, "trainers_cannot_connect",
          {{"path", path_}, {"status", ErrnoStatus(error, "accept", path_)}});
    }
    return false;
  }
  // The connection waits in the backlog until there is room.
  if (!std::exchange(told_full_, true)) {
    Log(LogLevel::kWarning, "trainer_waits_to_connect",
        {{"path", path_}, {"status", ErrnoStatus(error, "accept", path_)}});
  }
  return !stop_.WaitFor(kFullRetry);
}

void TrainerListener::Greet(UniqueFd connection) {
  const int fd = connection.get();
  TrainerConnection made;
  made.pid = PeerPid(fd);
  SetReceiveTimeout(fd, kHelloSeconds);
  made.socket = std::make_shared<wire::FrameSocket>(connection.Release());
  trainer::v1::ToAgent first;
  const absl::Status received = made.socket->Receive(&first);
  if (!received.ok() || !first.has_hello()) {
    Log(LogLevel::kWarning, "trainer_greeting_refused",
        {{"pid", made.pid}, {"status", received}});
    return;
  }
  SetReceiveTimeout(fd, 0);
  made.rank = first.hello().rank();
  callback_(std::move(made));
}

}  // namespace evenstep::agent
