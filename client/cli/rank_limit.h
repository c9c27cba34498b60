#ifndef EVENSTEP_CLIENT_CLI_RANK_LIMIT_H_
#define EVENSTEP_CLIENT_CLI_RANK_LIMIT_H_

// How many ranks a command may start on this machine. Each is a process that
// computes all the time: with more of them than cores they take turns, and with
// many more the machine does little else. Asked by `local` and `profile` before
// they start anything. Pure functions.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace evenstep::cli {

inline constexpr int kMostRanksPerCore = 4;

// INVALID_ARGUMENT: more than kMostRanksPerCore ranks a core. The sentence has
// the numbers, and ends with `way_out`.
absl::Status CheckRankLimit(int ranks, int num_cores,
                            absl::string_view way_out);

// The warning for more ranks than cores; `what` is the consequence it names.
// Empty if every rank has a core.
std::string CoresWarning(int ranks, int num_cores, absl::string_view what);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_RANK_LIMIT_H_
