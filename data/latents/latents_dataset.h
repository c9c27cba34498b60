#ifndef EVENSTEP_DATA_LATENTS_LATENTS_DATASET_H_
#define EVENSTEP_DATA_LATENTS_LATENTS_DATASET_H_

// `latents:` data: safetensors files (named *.safetensors; others are left
// alone) whose tensors are clips of video latents, [frames, height, width,
// channels] in float32, float16 or bfloat16. Patches of `patch` x `patch`
// latent pixels are tokens. All values are looked at once, when the files are
// indexed (clip_index.h).

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"

namespace evenstep::data {

inline constexpr int kMaxPatch = 64;  // latent pixels

// A clip of another form, of other channels, with a value that is not finite,
// or whose sides are no multiple of the patch is a bad sample. A clip that is
// too long is truncated by whole frames. Errors as of OpenDataset. `path` is
// the source without its prefix.
absl::StatusOr<std::unique_ptr<Dataset>> OpenLatentsDataset(
    const DatasetOptions& options, absl::string_view path);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_LATENTS_LATENTS_DATASET_H_
