#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_POINTS_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_POINTS_H_

// Which micro-batches a profile measures: of two depths, so that a layer tells
// from the rest, several sizes, mixtures, degrees and recompute. A video model
// is measured with clips: a single frame and a single patch tell pairs of
// patches from pairs of frames, clips of other proportions check them. Pure.

#include <cstdint>
#include <vector>

#include "jobspec/job_spec.h"
#include "jobspec/profile.h"

namespace evenstep::trainer {

struct ProfileShape {
  jobspec::ModelSpec model;
  int64_t longest = 0;  // tokens of the longest document or clip
  int ranks = 1;
  // Tokens of micro-batches: those of more than `longest` have several
  // documents. 0: `longest`.
  int64_t fullest = 0;
  int64_t smallest = 16;
};

// The shallow and the deep model; one where the model has one layer, or one of
// each kind.
std::vector<int> ProfileDepths(const jobspec::ModelSpec& model);
// Degrees above 1 that all of `ranks` ranks can run at once.
std::vector<int> ProfileDegrees(const ProfileShape& shape);
// Not measured yet; by depth, so that each model is built once. Clips that a
// degree cannot share are left out.
std::vector<jobspec::ProfilePoint> ProfilePoints(const ProfileShape& shape);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_POINTS_H_
