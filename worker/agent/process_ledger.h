#ifndef EVENSTEP_WORKER_AGENT_PROCESS_LEDGER_H_
#define EVENSTEP_WORKER_AGENT_PROCESS_LEDGER_H_

// The file in which an agent records the trainers that live, so that the next
// agent of the same work folder can end what a killed one left behind. One line
// a process: PID START_TICKS JOB ATTEMPT RANK. Owned by the agent's loop; one
// agent per folder, which a lock ensures.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace evenstep::agent {

struct LedgerEntry {
  pid_t pid = -1;
  int64_t start_ticks = 0;
  std::string job_id;
  int attempt = 0;
  int rank = 0;
};

class ProcessLedger {
 public:
  // Takes the folder's lock. FAILED_PRECONDITION: another agent holds it.
  static absl::StatusOr<ProcessLedger> Open(const std::string& work_dir);

  // Ends every recorded process that still is the recorded one, and empties the
  // file. Returns how many were ended; the first that would not go is an error.
  absl::StatusOr<int> EndLeftovers(absl::Duration timeout);

  absl::Status Add(LedgerEntry entry);
  absl::Status Remove(pid_t pid);

 private:
  ProcessLedger(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  absl::Status Write() const;

  std::string path_;
  UniqueFd lock_;
  std::map<pid_t, LedgerEntry> entries_;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_PROCESS_LEDGER_H_
