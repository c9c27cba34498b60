#ifndef EVENSTEP_WORKER_TRAINER_JOB_WEIGHTS_H_
#define EVENSTEP_WORKER_TRAINER_JOB_WEIGHTS_H_

// The trained weights as a file: parameters by name in safetensors, with the
// model's configuration, the job, the steps trained, whether the job ended
// before its last step, and the seed as metadata; and of a text model the
// configuration that Hugging Face's Llama is loaded with. Written at the end of
// a run by weights_keeper.h, and read back here. No state.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "evenstep/trainer/model.h"
#include "jobspec/llama_config.h"
#include "worker/trainer/job/trainer_setup.h"

namespace evenstep::trainer {

using data::kWeightsName;
using jobspec::kConfigName;
// Of a model with a name: tokens of its job's longest sample.
inline constexpr char kMaxLengthKey[] = "evenstep.model.max_length";

// Whole or absent; the parameters stay as they are.
// FailureReason::kStorageFull: the disk or the limit of file sizes has no room.
absl::Status WriteWeights(const std::string& path, const TrainerSetup& setup,
                          const std::vector<NamedParameter>& parameters,
                          int64_t steps_done,
                          const data::WriteProgress& on_written = nullptr);

// What transformers' LlamaForCausalLM.from_pretrained reads beside the weights.
// Of the trainer's own text models only. Whole or absent.
absl::Status WriteLlamaConfig(const std::string& path,
                              const TrainerSetup& setup);

// Weights from a file into a model: those that a job begins with
// (`model.weights`), and those of a model that is used after training. Written
// by a job (weights.h) or by Hugging Face's Llama; jobspec/weights_model.h says
// of which model they are. Every tensor is checked before the first value is
// read; values are read tensor by tensor, so the file need not fit into memory
// beside the model. No state.

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

#endif  // EVENSTEP_WORKER_TRAINER_JOB_WEIGHTS_H_
