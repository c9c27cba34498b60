#ifndef EXAMPLES_CUSTOM_MODEL_GPT2_H_
#define EXAMPLES_CUSTOM_MODEL_GPT2_H_

// A model of one's own: a decoder of the kind of GPT-2, with learned positions,
// layer norms, GELU and a head that is the embedding. It knows nothing of ranks
// and groups. Includes no more than evenstep/trainer/, so it is built within
// the tree and outside of it. Made on the main thread of a trainer.

#include <memory>

#include "absl/status/statusor.h"
#include "evenstep/trainer/model_request.h"

namespace custom_model {

// INVALID_ARGUMENT: key and value heads of another number, or a video job.
absl::StatusOr<std::unique_ptr<evenstep::trainer::Model>> MakeGpt2(
    const evenstep::trainer::ModelRequest& request);

}  // namespace custom_model

#endif  // EXAMPLES_CUSTOM_MODEL_GPT2_H_
