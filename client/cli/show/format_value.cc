#include "client/cli/show/format_value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evenstep::cli {

std::string FormatCount(double count) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  while (std::abs(count) >= 999.5 && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%.0f", count);
  const int decimals = std::abs(count) < 9.995 ? 2 : count < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f%s", decimals, count, kUnits[unit]);
}

std::string FormatBytes(double bytes) {
  const std::string count = FormatCount(bytes);
  const size_t unit = count.find_first_of("kMGT");
  if (unit == std::string::npos) return absl::StrCat(count, " B");
  return absl::StrCat(count.substr(0, unit), " ", count.substr(unit), "B");
}

std::string FormatPercent(int64_t part, int64_t whole) {
  const double share =
      whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  return absl::StrFormat("%d%%",
                         static_cast<int>(std::clamp(share * 100, 0.0, 100.0)));
}

std::string FormatSpan(absl::Duration span) {
  // Clocks of two machines may differ.
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(span));
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%ds", whole);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  const int64_t minutes = whole / 60;
  if (minutes < 24 * 60) {
    return absl::StrFormat("%dh%02dm", minutes / 60, minutes % 60);
  }
  return absl::StrFormat("%dd%dh", minutes / (24 * 60), minutes / 60 % 24);
}

std::string FormatShare(double share) {
  return absl::StrFormat("%.1f%%", share * 100);
}

std::string FormatInstant(std::optional<absl::Time> time) {
  if (!time) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", *time, absl::LocalTimeZone());
}

}  // namespace evenstep::cli
