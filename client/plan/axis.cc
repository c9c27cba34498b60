#include "client/plan/axis.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace evenstep::plan {
namespace {

// The largest of 1, 2, 5 times a power of ten that is at most `value`.
double RoundDown(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  const double mantissa = value / power;
  if (mantissa >= 5) return 5 * power;
  if (mantissa >= 2) return 2 * power;
  return power;
}

}  // namespace

std::vector<Tick> RoundTicks(double most, int count) {
  std::vector<Tick> ticks;
  if (!(most > 0)) return {{0, "0"}};
  const double step = RoundDown(most / count * 1.5);
  for (int i = 0; i * step <= most * 1.0001; ++i) {
    ticks.push_back({i * step, absl::StrFormat("%g", i * step)});
  }
  return ticks;
}

std::string FormatTime(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  if (seconds < 1000) return absl::StrFormat("%.3g s", seconds);
  return absl::StrFormat("%.0f s", seconds);
}

}  // namespace evenstep::plan
