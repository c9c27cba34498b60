#ifndef EVENSTEP_WORKER_AGENT_WORK_FOLDER_H_
#define EVENSTEP_WORKER_AGENT_WORK_FOLDER_H_

// The folder of one agent: its places and its identity. One agent works in it
// at a time, which ProcessLedger's lock ensures. Stateless; used by Agent.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evenstep::agent {

// The folder with `sockets` and `attempts`, for this user only.
absl::Status MakeWorkFolder(const std::string& work_dir);

// Keeps the logs of the newest attempts. What cannot be removed stays.
void PruneAttemptFolders(const std::string& work_dir);

// What this folder has and no other, a copy of it included: a random word that
// is made once and kept in `folder-id`, the folder's inode, and the machine's
// id. The same after a restart of the machine. The folder's lock must be held.
absl::StatusOr<std::string> FolderId(const std::string& work_dir);

// Random, 16 hexadecimal digits.
std::string RandomName();

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_WORK_FOLDER_H_
