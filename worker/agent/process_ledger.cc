#include "worker/agent/process_ledger.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/agent/process.h"

namespace evenstep::agent {
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
