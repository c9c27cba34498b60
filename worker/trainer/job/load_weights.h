#ifndef EVENSTEP_WORKER_TRAINER_JOB_LOAD_WEIGHTS_H_
#define EVENSTEP_WORKER_TRAINER_JOB_LOAD_WEIGHTS_H_

// Weights from a file into a model: those that a job begins with
// (`model.weights`), and those of a model that is used after training. Written
// by a job (weights.h) or by Hugging Face's Llama; jobspec/weights_model.h says
// of which model they are. Every tensor is checked before the first value is
// read; values are read tensor by tensor, so the file need not fit into memory
// beside the model. No state.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/model/model.h"

namespace evenstep::trainer {

// Values of F64, F32, F16 and BF16, converted to the parameters' type.
// NOT_FOUND, DATA_LOSS: no sound file. FAILED_PRECONDITION: a tensor is
// missing, of another shape than the model's (with both), of another type, or
// not of the model (jobspec/weights_fit.h); no parameter has changed then. Or a
// value is not finite, in the file or in the parameters' type: the tensor and
// the element are named, and the parameters are of no use.
absl::Status LoadWeights(const std::string& path,
                         const std::vector<NamedParameter>& parameters);

// Of all values, in order: equal on two ranks if they begin with the same.
uint64_t WeightsKey(const std::vector<NamedParameter>& parameters);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_LOAD_WEIGHTS_H_
