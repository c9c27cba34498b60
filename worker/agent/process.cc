#include "worker/agent/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/spawn_options.h"
#include "base/status_macros.h"

extern char** environ;

namespace evenstep::agent {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(5);
constexpr absl::Duration kGroupWait = absl::Seconds(1);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return ErrnoStatus(errno, "cannot make a pipe", "");
  }
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

struct ProcessStat {
  char state;
  int64_t start_ticks;
};

absl::StatusOr<ProcessStat> ReadStat(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  // The name in parentheses may hold anything; fields count from its end.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) {
    return absl::NotFoundError(absl::StrCat("no process ", pid));
  }
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(text).substr(name_end + 2), ' ');
  ProcessStat stat{fields[0][0], 0};
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &stat.start_ticks)) {
    return absl::InternalError(absl::StrCat("cannot read the state of ", pid));
  }
  return stat;
}

}  // namespace

absl::StatusOr<SpawnedProcess> Spawn(
    const std::string& path, const std::vector<std::string>& arguments) {
  EVENSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  EVENSTEP_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  SpawnOptions options;
  posix_spawn_file_actions_adddup2(options.actions(), output.write.get(), 1);
  posix_spawn_file_actions_adddup2(options.actions(), error.write.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(options.actions(), 3);
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(path.c_str()));
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  SpawnedProcess process;
  const int failed = posix_spawn(&process.pid, path.c_str(), options.actions(),
                                 options.attributes(), argv.data(), environ);
  if (failed != 0) return ErrnoStatus(failed, "cannot start", path);
  const auto stat = ReadStat(process.pid);  // a zombie at worst: ours to reap
  process.start_ticks = stat.ok() ? stat->start_ticks : 0;
  process.output = std::move(output.read);
  process.error = std::move(error.read);
  return process;
}

void AwaitExit(pid_t pid) {
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
}

ProcessEnd Reap(pid_t pid) {
  KillGroup(pid);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ProcessEnd end;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
  return end;
}

void AwaitGroupGone(pid_t pid) {
  const absl::Duration end = RealClock().Monotonic() + kGroupWait;
  while (kill(-pid, 0) == 0 && RealClock().Monotonic() < end) {
    absl::SleepFor(kPollInterval);
  }
}

void KillGroup(pid_t pid) {
  if (pid > 1) kill(-pid, SIGKILL);
}

absl::StatusOr<int64_t> ProcessStartTicks(pid_t pid) {
  EVENSTEP_ASSIGN_OR_RETURN(const ProcessStat stat, ReadStat(pid));
  if (stat.state == 'Z' || stat.state == 'X') {
    return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  }
  return stat.start_ticks;
}

absl::Status KillStranger(pid_t pid, int64_t start_ticks,
                          absl::Duration timeout) {
  const auto is_there = [&] {
    const auto ticks = ProcessStartTicks(pid);
    return ticks.ok() && *ticks == start_ticks;
  };
  if (!is_there()) return absl::OkStatus();
  KillGroup(pid);
  const absl::Duration end = RealClock().Monotonic() + timeout;
  while (is_there()) {
    if (RealClock().Monotonic() >= end) {
      return absl::DeadlineExceededError(
          absl::StrCat("process ", pid, " is still there ",
                       absl::FormatDuration(timeout), " after SIGKILL"));
    }
    absl::SleepFor(kPollInterval);
  }
  return absl::OkStatus();
}

namespace {

constexpr int64_t kMaxLedgerBytes = 1 << 20;

// A line that cannot be read is skipped: the process it meant ends by itself
// when its agent's socket is gone.
bool ParseLine(absl::string_view line, LedgerEntry* entry) {
  const std::vector<std::string> fields = absl::StrSplit(line, ' ');
  if (fields.size() != 5) return false;
  entry->job_id = fields[2];
  return absl::SimpleAtoi(fields[0], &entry->pid) && entry->pid > 1 &&
         absl::SimpleAtoi(fields[1], &entry->start_ticks) &&
         absl::SimpleAtoi(fields[3], &entry->attempt) &&
         absl::SimpleAtoi(fields[4], &entry->rank);
}

}  // namespace

absl::StatusOr<ProcessLedger> ProcessLedger::Open(const std::string& work_dir) {
  const std::string lock_path = absl::StrCat(work_dir, "/lock");
  UniqueFd lock(open(lock_path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, "cannot open", lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another agent uses the work folder ", work_dir,
                     "; give each agent its own --work-dir"));
  }
  return ProcessLedger(absl::StrCat(work_dir, "/processes"), std::move(lock));
}

absl::StatusOr<int> ProcessLedger::EndLeftovers(absl::Duration timeout) {
  const auto text = ReadWholeFile(path_, kMaxLedgerBytes);
  if (absl::IsNotFound(text.status())) return 0;
  EVENSTEP_RETURN_IF_ERROR(text.status());
  int ended = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    LedgerEntry entry;
    if (!ParseLine(line, &entry)) continue;
    const auto ticks = ProcessStartTicks(entry.pid);
    if (!ticks.ok() || *ticks != entry.start_ticks) continue;
    Log(LogLevel::kWarning, "leftover_trainer_ended",
        {{"job", entry.job_id},
         {"attempt", entry.attempt},
         {"rank", entry.rank},
         {"pid", entry.pid}});
    EVENSTEP_RETURN_IF_ERROR(
        KillStranger(entry.pid, entry.start_ticks, timeout));
    ++ended;
  }
  EVENSTEP_RETURN_IF_ERROR(Write());
  return ended;
}

absl::Status ProcessLedger::Add(LedgerEntry entry) {
  const pid_t pid = entry.pid;
  entries_[pid] = std::move(entry);
  return Write();
}

absl::Status ProcessLedger::Remove(pid_t pid) {
  if (entries_.erase(pid) == 0) return absl::OkStatus();
  return Write();
}

absl::Status ProcessLedger::Write() const {
  std::string text;
  for (const auto& [pid, entry] : entries_) {
    absl::StrAppend(&text, pid, " ", entry.start_ticks, " ", entry.job_id, " ",
                    entry.attempt, " ", entry.rank, "\n");
  }
  return WriteFileAtomically(path_, text);
}

}  // namespace evenstep::agent
