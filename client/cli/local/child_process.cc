#include "client/cli/local/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/spawn_options.h"

extern char** environ;

namespace evenstep::cli {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr int kTailBytes = 2000;
constexpr int kExecFailed = 127;

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(status));
  }
  return absl::StrCat("ended with exit status ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildOptions& options) {
  if (access(options.program.c_str(), X_OK) != 0) {
    return ErrnoStatus(errno, "cannot run", options.program);
  }
  std::vector<std::string> words = {options.launcher, kExecChildWord,
                                    absl::StrCat(getpid()), options.program};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  SpawnOptions settings;
  posix_spawn_file_actions_addopen(settings.actions(), 1,
                                   options.log_path.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(settings.actions(), 1, 2);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, options.launcher.c_str(), settings.actions(),
                  settings.attributes(), argv.data(), environ);
  if (error != 0) return ErrnoStatus(error, "cannot start", options.program);
  return ChildProcess(options, pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : options_(std::move(other.options_)),
      pid_(std::exchange(other.pid_, -1)),
      ended_(std::move(other.ended_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  Terminate();
  WaitOrKill(absl::Seconds(1));
}

std::optional<std::string> ChildProcess::Ended() {
  int status = 0;
  if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = DescribeEnd(status);
  }
  return ended_;
}

void ChildProcess::Terminate() {
  if (!Ended()) kill(pid_, SIGTERM);
}

void ChildProcess::WaitOrKill(absl::Duration grace) {
  const absl::Duration deadline = RealClock().Monotonic() + grace;
  while (!Ended() && RealClock().Monotonic() < deadline) {
    absl::SleepFor(kPollInterval);
  }
  if (Ended()) return;
  killpg(pid_, SIGKILL);
  int status = 0;
  if (waitpid(pid_, &status, 0) == pid_) ended_ = DescribeEnd(status);
}

std::string ChildProcess::LogTail() const {
  std::ifstream file(options_.log_path, std::ios::ate | std::ios::binary);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  const std::streamoff start = std::max<std::streamoff>(0, size - kTailBytes);
  file.seekg(start);
  std::string tail(static_cast<size_t>(size - start), '\0');
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  if (start > 0) tail.erase(0, tail.find('\n') + 1);
  return tail;
}

int ExecChild(int argc, char** argv) {
  pid_t parent = -1;
  if (argc < 4 || !absl::SimpleAtoi(argv[2], &parent)) return kExecFailed;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have died before the line above.
  if (getppid() != parent) return kExecFailed;
  execv(argv[3], argv + 3);
  return kExecFailed;
}

}  // namespace evenstep::cli
