#include "client/cli/rank_limit.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace evenstep::cli {

absl::Status CheckRankLimit(int ranks, int num_cores,
                            absl::string_view way_out) {
  const int most = num_cores * kMostRanksPerCore;
  if (ranks <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Counted(ranks, "rank"), " are too many for the ",
      Counted(num_cores, "core"), " that this process may use: at most ", most,
      " (", kMostRanksPerCore, " a core), best ", num_cores,
      "; choose with --ranks, or ", way_out));
}

std::string CoresWarning(int ranks, int num_cores, absl::string_view what) {
  if (ranks <= num_cores) return "";
  return absl::StrCat("Warning: ", Counted(ranks, "rank"), " take turns on ",
                      Counted(num_cores, "core"), ": ", what);
}

}  // namespace evenstep::cli
