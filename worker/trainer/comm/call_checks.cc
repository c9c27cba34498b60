#include "worker/trainer/comm/call_checks.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {

absl::Status CheckCounts(absl::Span<const int64_t> counts, int size,
                         absl::string_view what) {
  if (static_cast<int>(counts.size()) != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        counts.size(), " ", what, " counts for a group of ", size, " ranks"));
  }
  for (int64_t count : counts) {
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a ", what, " count is negative: ", count));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRoot(int64_t bytes, int root, int size) {
  if (root >= 0 && root < size && bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "broadcast of ", bytes, " bytes from rank ", root, " of ", size));
}

absl::Status CheckPeer(int64_t bytes, int peer, int rank, int size) {
  if (peer >= 0 && peer < size && peer != rank && bytes >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("message of ", bytes, " bytes between rank ", rank,
                   " and rank ", peer, " of ", size));
}

absl::Status CheckInBlock(const RankBlock& block, int world_rank) {
  if (block.Contains(world_rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", world_rank, " is not among the ", block.degree,
                   " ranks from ", block.first_rank));
}

absl::Status CheckShares(absl::Span<const int64_t> counts, PlaceInGroup place,
                         size_t num_sent, size_t num_received) {
  EVENSTEP_RETURN_IF_ERROR(CheckCounts(counts, place.size, "value"));
  const int64_t total =
      std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t own = counts[place.rank];
  if (static_cast<int64_t>(num_sent) == total &&
      static_cast<int64_t>(num_received) == own) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "reduce-scatter of ", total, " values, ", own, " for rank ", place.rank,
      ", has buffers of ", num_sent, " and ", num_received));
}

}  // namespace evenstep::trainer
