#ifndef EVENSTEP_WORKER_TRAINER_JOB_WEIGHTS_H_
#define EVENSTEP_WORKER_TRAINER_JOB_WEIGHTS_H_

// The trained weights as a file: parameters by name in safetensors, with the
// model's configuration, the job, the steps trained, whether the job ended
// before its last step, and the seed as metadata; and of a text model the
// configuration that Hugging Face's Llama is loaded with. Written at the end of
// a run by weights_keeper.h; read by load_weights.h. No state.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "jobspec/llama_config.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/model/model.h"

namespace evenstep::trainer {

using data::kWeightsName;
using jobspec::kConfigName;
// Of a model with a name: tokens of its job's longest sample.
inline constexpr char kMaxLengthKey[] = "evenstep.model.max_length";

// Whole or absent; the parameters stay as they are.
absl::Status WriteWeights(const std::string& path, const TrainerSetup& setup,
                          const std::vector<NamedParameter>& parameters,
                          int64_t steps_done,
                          const data::WriteProgress& on_written = nullptr);

// What transformers' LlamaForCausalLM.from_pretrained reads beside the weights.
// Of the trainer's own text models only. Whole or absent.
absl::Status WriteLlamaConfig(const std::string& path,
                              const TrainerSetup& setup);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_WEIGHTS_H_
