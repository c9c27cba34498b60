#include "base/backoff.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

namespace evenstep {

Backoff::Backoff(const BackoffOptions& options, std::function<double()> uniform)
    : options_(options),
      uniform_(std::move(uniform)),
      current_(std::min(options.first, options.cap)) {}

absl::Duration Backoff::Next() {
  const absl::Duration wait = current_ * (0.5 + 0.5 * uniform_());
  current_ = std::min(current_ * 2, options_.cap);
  return wait;
}

void Backoff::Reset() { current_ = std::min(options_.first, options_.cap); }

std::function<double()> RandomUniform() {
  auto generator = std::make_shared<std::mt19937_64>(std::random_device{}());
  return [generator] {
    return std::uniform_real_distribution<double>(0, 1)(*generator);
  };
}

}  // namespace evenstep
