#ifndef EVENSTEP_PLANNER_LIMITS_H_
#define EVENSTEP_PLANNER_LIMITS_H_

// The limits of every number of a request, within which no arithmetic of the
// planner can overflow. Stateless.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace evenstep::planner {

inline constexpr int64_t kMaxSamples = int64_t{1} << 20;
inline constexpr int64_t kMaxLengthTokens = int64_t{1} << 28;  // one sample
inline constexpr int64_t kMaxTotalTokens = int64_t{1} << 36;   // one step
inline constexpr int kMaxRanks = 1 << 14;
// Contiguous blocks: degrees times samples, and degrees times blocks, stay
// small enough to be listed.
inline constexpr int kMaxContiguousRanks = 512;
// Samples times classes of blocks times recompute choices: 24 bytes each and
// more are held.
inline constexpr int64_t kMaxCostCells = int64_t{1} << 24;
inline constexpr int kMaxLayers = 1 << 14;  // of a kind
inline constexpr int kMaxHeads = 1 << 20;
inline constexpr int64_t kMaxTokensPerRank = int64_t{1} << 36;
inline constexpr int64_t kMaxActivationBytes = int64_t{1} << 50;
inline constexpr int64_t kMaxBytesPerToken = int64_t{1} << 40;
inline constexpr int64_t kMaxKvHeadBytesPerToken = int64_t{1} << 26;
inline constexpr size_t kMaxRecomputeChoices = 16;
inline constexpr int64_t kMaxFixedNs = int64_t{1} << 50;  // 13 days
inline constexpr double kMaxLinearNsPerToken = 1 << 30;
inline constexpr double kMaxQuadraticNsPerToken2 = 1 << 10;
inline constexpr double kMinRankSpeed = 1.0 / 1024;
inline constexpr double kMaxRankSpeed = 1024;
inline constexpr int64_t kMaxWorkBudget = int64_t{1} << 32;
// Time of all ranks together, if every sample is a micro-batch of its own.
// Sums of rank-time therefore fit 63 bits.
inline constexpr int64_t kMaxRankNs = int64_t{1} << 61;

// One sentence for every number that is out of its range.
template <typename Number>
absl::Status InRange(const std::string& field, Number value, Number low,
                     Number high) {
  // Written so that NaN is refused too.
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", value, "; it must be from ", low, " to ", high));
}

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_LIMITS_H_
