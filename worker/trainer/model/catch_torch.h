#ifndef EVENSTEP_WORKER_TRAINER_MODEL_CATCH_TORCH_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_CATCH_TORCH_H_

// Where torch's exceptions become values: whoever makes or computes tensors
// outside a model does it in here. No state.
//
//   EVENSTEP_RETURN_IF_ERROR(CatchTorch("a model of width 64", [&] { ... }));

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace evenstep::trainer {

// Of the exception in flight, for use in a catch block; `what` failed.
// RESOURCE_EXHAUSTED: memory ran out; otherwise INTERNAL.
absl::Status StatusOfException(absl::string_view what);

// `body` returns an absl::Status, which is passed on.
template <typename Body>
absl::Status CatchTorch(absl::string_view what, const Body& body) {
  try {
    return body();
  } catch (...) {
    return StatusOfException(what);
  }
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_CATCH_TORCH_H_
