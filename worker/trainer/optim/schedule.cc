#include "worker/trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace evenstep::trainer {

double LearningRate(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  const double span = static_cast<double>(
      std::max<int64_t>(1, schedule.total_steps - 1 - schedule.warmup_steps));
  const double progress =
      std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / span);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return schedule.peak *
         (schedule.final_share + (1.0 - schedule.final_share) * cosine);
}

}  // namespace evenstep::trainer
