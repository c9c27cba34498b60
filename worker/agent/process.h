#ifndef EVENSTEP_WORKER_AGENT_PROCESS_H_
#define EVENSTEP_WORKER_AGENT_PROCESS_H_

// Child processes: started without fork, each the leader of a process group of
// its own, waited for, and never confused with another process that got the
// same number later. Stateless functions; thread-safe.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace evenstep::agent {

struct SpawnedProcess {
  pid_t pid = -1;
  int64_t start_ticks = 0;  // tells the process from a later one of that pid
  UniqueFd output;          // reads what it writes to stdout
  UniqueFd error;           // reads what it writes to stderr
};

struct ProcessEnd {
  int exit_status = 0;
  int signal = 0;  // 0: it exited by itself
};

// Standard input is /dev/null, all other descriptors are closed, signals are as
// at a login. NOT_FOUND and so on by errno, with the path.
absl::StatusOr<SpawnedProcess> Spawn(const std::string& path,
                                     const std::vector<std::string>& arguments);

// Blocks until the child has ended. Its number stays taken until Reap.
void AwaitExit(pid_t pid);

// After AwaitExit: kills what is left of the child's group, then lets its
// number go.
ProcessEnd Reap(pid_t pid);

// After Reap: blocks until no process of the group is left, a second at most.
void AwaitGroupGone(pid_t pid);

// SIGKILL to the group that `pid` leads. Only before Reap.
void KillGroup(pid_t pid);

// Field 22 of /proc/PID/stat. NOT_FOUND: no such process, or only its zombie.
absl::StatusOr<int64_t> ProcessStartTicks(pid_t pid);

// Kills the group of a process that is not our child, if `pid` still is the
// process that started at `start_ticks`, and waits until it is gone.
// DEADLINE_EXCEEDED: it was killed but is still there.
absl::Status KillStranger(pid_t pid, int64_t start_ticks,
                          absl::Duration timeout);

// The file in which an agent records the trainers that live, so that the next
// agent of the same work folder can end what a killed one left behind. One line
// a process: PID START_TICKS JOB ATTEMPT RANK. Owned by the agent's loop; one
// agent per folder, which a lock ensures.

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

#endif  // EVENSTEP_WORKER_AGENT_PROCESS_H_
