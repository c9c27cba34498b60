#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_SAMPLE_CLIP_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_SAMPLE_CLIP_H_

// Makes a clip from noise with a trained video model: the way back of rectified
// flow, from timestep 1 to 0 in equal steps, each along what the model predicts
// (Liu et al., 2023). One rank, no groups. Main thread only.

#include <cstdint>

#include "absl/status/statusor.h"
#include "data/clip.h"
#include "worker/trainer/model/diffusion_transformer.h"

namespace evenstep::trainer {

struct SampleClipOptions {
  data::ClipShape shape;     // in patches
  int64_t patch_values = 1;  // of the model
  int steps = 50;
  uint64_t seed = 0;
};

// INVALID_ARGUMENT: no steps, or an empty shape. RESOURCE_EXHAUSTED: memory ran
// out.
absl::StatusOr<data::Clip> SampleClip(const SampleClipOptions& options,
                                      DiffusionTransformer* model);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_SAMPLE_CLIP_H_
