#ifndef EVENSTEP_CLIENT_CLI_SHOW_FORMAT_VALUE_H_
#define EVENSTEP_CLIENT_CLI_SHOW_FORMAT_VALUE_H_

// Numbers as people read them: "12.3k", "3m12s", "4.2%". Pure functions.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace evenstep::cli {

// 950, "12.3k", "4.56M": three significant digits.
std::string FormatCount(double count);
// "0.8s", "42s", "3m12s", "2h05m", "3d4h".
std::string FormatSpan(absl::Duration span);
// Formats bytes: "900 B", "350 MB", "12.3 GB"; three significant digits.
std::string FormatBytes(double bytes);
// "41%", rounded down: 100% is all of it.
std::string FormatPercent(int64_t part, int64_t whole);
// 0.0312 is "3.1%".
std::string FormatShare(double share);
// "2026-11-29 15:38:08" in local time; "-" when absent.
std::string FormatInstant(std::optional<absl::Time> time);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_FORMAT_VALUE_H_
