#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_FIT_PROFILE_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_FIT_PROFILE_H_

// From the times of a profile's micro-batches (profile_points.h) to costs of
// the whole model. Two depths tell what a layer costs from what the rest costs,
// so that a model is profiled with fewer layers than it has. With L layers, n
// of them recomputed, S padded tokens and Q pairs on d ranks:
//
//   compute    = f + g L + h S / d + (L + n / 3) (p S + q Q) / d
//   collective = (2 L + n) calls alpha
//                + (L + n / 2) S (beta(d) / d, and gamma(d) / u)
//
// u ranks of the d share by heads (beta; 4 calls), the rest by gathered keys
// and values (gamma; 2 calls), as the planner splits that degree. Where both
// occur at one degree, the points do not tell beta from gamma: their sum is
// right. f, g, h, p, q, alpha, beta(d) and gamma(d) are fitted by least squares
// of relative errors, none below zero. Of a video model L / 2 layers are of
// each kind, with n, Q and q of their own and one p; a degree that switches has
// 1 call and beta. Pure: no clock, no torch.

#include <cstdint>
#include <vector>

#include "jobspec/job_spec.h"
#include "jobspec/profile.h"
#include "planner/request.h"

namespace evenstep::trainer {

// What a step costs beside its micro-batches, with a model of `layers` layers.
struct StepFixedPoint {
  int layers = 1;
  double ns = 0;
};

struct ProfileFit {
  planner::TimeModel costs;  // of the whole model
  double fit_error = 0;
  double held_out_error = 0;  // mean of |predicted - measured| / measured
};

// Fits to the points that are not held out, and fills in `predicted_ns` of all.
ProfileFit FitProfile(const jobspec::ModelSpec& model,
                      const std::vector<StepFixedPoint>& step_fixed,
                      std::vector<jobspec::ProfilePoint>* points);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_FIT_PROFILE_H_
