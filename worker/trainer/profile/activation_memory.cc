#include "worker/trainer/profile/activation_memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace evenstep::trainer {
namespace {

// Relative weights: every point's error counts by its share of the point.
struct LineFit {
  double slope = 0;
  double offset = 0;
};

// y = slope x + offset. False: all x are the same.
bool FitLine(const std::vector<double>& x, const std::vector<double>& y,
             LineFit* fit) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    w += weight;
    wx += weight * x[i];
    wy += weight * y[i];
    wxx += weight * x[i] * x[i];
    wxy += weight * x[i] * y[i];
  }
  const double determinant = w * wxx - wx * wx;
  if (!(determinant > 1e-9 * w * wxx)) return false;
  fit->slope = (w * wxy - wx * wy) / determinant;
  fit->offset = (wy - fit->slope * wx) / w;
  return true;
}

double PerToken(const MemoryPoint& point) {
  return static_cast<double>(point.bytes) /
         static_cast<double>(point.own_tokens);
}

}  // namespace

absl::StatusOr<ActivationMemory> FitActivationMemory(
    absl::Span<const MemoryPoint> points, int layers, double kept) {
  std::vector<double> whole_layers;
  std::vector<double> rest;
  std::vector<double> redone;
  for (const MemoryPoint& point : points) {
    const int n = point.recompute_layers;
    const double beside_kept = PerToken(point) - n * kept;
    if (2 * n <= layers) {
      whole_layers.push_back(layers - n);
      rest.push_back(beside_kept);
    } else if (n == layers) {
      redone.push_back(beside_kept);
    }
  }
  LineFit line;
  if (redone.empty() || !FitLine(whole_layers, rest, &line)) {
    return absl::InvalidArgumentError(
        absl::StrCat(points.size(),
                     " points do not tell layers, head and a recomputed "
                     "layer apart: all of ",
                     layers,
                     " layers recomputed, and two numbers "
                     "of at most half of them, are needed"));
  }
  const auto [least, most] = std::minmax_element(redone.begin(), redone.end());
  return ActivationMemory{line.slope, kept, std::max(0.0, line.offset),
                          (*least + *most) / 2};
}

int64_t PredictActivationBytes(const ActivationMemory& memory, int layers,
                               int recompute_layers, int64_t own_tokens) {
  const int n = recompute_layers;
  const double kept = n * memory.kept;
  const double at_head = (layers - n) * memory.layer + kept + memory.head;
  const double at_redone = n > 0 ? kept + memory.redone : 0;
  return std::llround(std::max(at_head, at_redone) *
                      static_cast<double>(own_tokens));
}

}  // namespace evenstep::trainer
