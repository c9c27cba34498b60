#ifndef EVENSTEP_BASE_BACKOFF_H_
#define EVENSTEP_BASE_BACKOFF_H_

// How long to wait before trying again: doubles up to a cap, each wait drawn
// between half of that and all of it, so that many callers do not come back at
// once. Randomness is injected. Not thread-safe: one per retrying caller.

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace evenstep {

struct BackoffOptions {
  absl::Duration first = absl::Milliseconds(100);
  absl::Duration cap = absl::Seconds(10);
};

class Backoff {
 public:
  // `uniform` gives numbers in [0, 1).
  Backoff(const BackoffOptions& options, std::function<double()> uniform);

  // The wait before the next try, at most the cap.
  absl::Duration Next();
  // After a success.
  void Reset();

 private:
  const BackoffOptions options_;
  const std::function<double()> uniform_;
  absl::Duration current_;
};

// Numbers in [0, 1) from a generator of its own, seeded by the machine.
std::function<double()> RandomUniform();

}  // namespace evenstep

#endif  // EVENSTEP_BASE_BACKOFF_H_
