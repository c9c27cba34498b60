#ifndef EVENSTEP_DATA_LENGTH_LIST_H_
#define EVENSTEP_DATA_LENGTH_LIST_H_

// Lists of lengths as people write them: one sample a line, a number of tokens,
// or frames x height x width in patches for video, such as 30x45x80. Blank
// lines are skipped, and what follows a #. Used by `evenstep plan` and by
// synthetic data. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/length_law.h"

namespace evenstep::data {

inline constexpr int64_t kMaxListedLength = int64_t{1} << 28;  // tokens
inline constexpr int64_t kMaxLengthListBytes = int64_t{64} << 20;

// INVALID_ARGUMENT naming the first line that is not a length.
absl::StatusOr<std::vector<LengthDraw>> ParseLengths(const std::string& text);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_LENGTH_LIST_H_
