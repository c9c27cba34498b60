#ifndef EVENSTEP_WORKER_TRAINER_JOB_LOAD_WEIGHTS_H_
#define EVENSTEP_WORKER_TRAINER_JOB_LOAD_WEIGHTS_H_

// Weights from a file into a model: those that a job begins with
// (`model.weights`), and those of a model that is used after training. Written
// by a job (weights.h) or by Hugging Face's Llama; jobspec/weights_model.h says
// of which model they are. Every tensor is checked before the first value is
// read; values are read tensor by tensor, so the file need not fit into memory
// beside the model. No state.
//
// A parameter's values stand under its own name; where that begins with
// "model." also without it, as Hugging Face saves a model without its head. A
// head that is not there is the embedding: Hugging Face stores tied ones once.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/safetensors.h"
#include "worker/trainer/model/model.h"

namespace evenstep::trainer {

// FAILED_PRECONDITION: the file has no such tensor, or of another shape (with
// both).
absl::Status CheckTensor(const data::SafetensorsHeader& header,
                         const std::string& name,
                         const std::vector<int64_t>& shape);

// Values of F64, F32, F16 and BF16, converted to the parameters' type.
// NOT_FOUND, DATA_LOSS: no sound file. FAILED_PRECONDITION: a tensor is
// missing, of another shape than the model's (with both), of another type, or
// not of the model; no parameter has changed then.
absl::Status LoadWeights(const std::string& path,
                         const std::vector<NamedParameter>& parameters);

// Of all values, in order: equal on two ranks if they begin with the same.
uint64_t WeightsKey(const std::vector<NamedParameter>& parameters);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_LOAD_WEIGHTS_H_
