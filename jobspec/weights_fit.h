#ifndef EVENSTEP_JOBSPEC_WEIGHTS_FIT_H_
#define EVENSTEP_JOBSPEC_WEIGHTS_FIT_H_

// Whether the tensors of a weights file are those of a model, by names, shapes
// and types, without reading a value. Used before a job is accepted, from the
// model's sizes, and by trainers, from the parameters that they have made. No
// torch; stateless.
//
// A parameter's values have its own name in the file; where that begins with
// "model." also the name without it, as Hugging Face saves a model without its
// head. A head that is not there is the embedding: Hugging Face stores tied
// ones once.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/safetensors.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

inline constexpr char kHeadTensor[] = "lm_head.weight";

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};

// All parameters of a model of the trainer's own, in the trainer's order. The
// model has no name of its own and keeps the rules of ValidateModelSpec.
std::vector<TensorShape> TensorsOf(const ModelSpec& model);

// FAILED_PRECONDITION: the file has no such tensor, or of another shape (with
// both).
absl::Status CheckTensor(const data::SafetensorsHeader& header,
                         const TensorShape& tensor);

// Where each of the tensors is in the file, in their order.
// FAILED_PRECONDITION: a tensor is missing, of another shape or of a type that
// cannot be read, or the file has one that is not among them; the first of
// these is named.
absl::StatusOr<std::vector<const data::TensorPlace*>> FindTensors(
    const data::SafetensorsHeader& header,
    const std::vector<TensorShape>& tensors);

// "[2, 3]"
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_WEIGHTS_FIT_H_
