#ifndef EVENSTEP_WORKER_TRAINER_LINK_TRAINER_MODE_H_
#define EVENSTEP_WORKER_TRAINER_LINK_TRAINER_MODE_H_

// How a trainer's program begins and ends where it is not a rank of a job: a
// first word on the command line, flags, one piece of work, and an exit code.
// Shared by the modes behind `evenstep profile` and `evenstep generate`. Main
// thread only.

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/config_table.h"

namespace evenstep::trainer {

// Whether the first word of the command line asks for the mode `word`.
bool AsksForMode(absl::string_view word, int argc, char** argv);

// Reads the flags of `table` (`argv[0]` is the word), sets up logs and calls
// `work`. Returns the exit code (failure.h); a failure is logged as
// WORD_failed, and left in the file of the flag --status-file: its code, a line
// end, its message.
int RunMode(absl::string_view word, ConfigTable* table, int argc, char** argv,
            const std::function<absl::Status()>& work);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_TRAINER_MODE_H_
