#ifndef EVENSTEP_WORKER_TRAINER_OPTIM_SCHEDULE_H_
#define EVENSTEP_WORKER_TRAINER_OPTIM_SCHEDULE_H_

// Learning rate by step: linear warm-up, then half a cosine down to a share of
// the peak. A pure function of the step, so ranks and restarts agree.

#include <cstdint>

namespace evenstep::trainer {

struct Schedule {
  double peak = 3e-4;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double final_share = 0.1;  // of the peak, at the last step
};

// Step from 0. With w warm-up steps, step s < w has peak * (s + 1) / w; step w
// has the peak; step total_steps - 1 and later have peak * final_share.
double LearningRate(const Schedule& schedule, int64_t step);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_OPTIM_SCHEDULE_H_
