#ifndef EVENSTEP_WORKER_TRAINER_JOB_MODEL_CONFIG_H_
#define EVENSTEP_WORKER_TRAINER_JOB_MODEL_CONFIG_H_

// Models as a job describes them, in the trainer's words. Called where a job's
// model is made (engine.h), and where one is made again from its weights
// (generate/load_model.h). Seed, dtype and device are the caller's. Pure.

#include <cstdint>

#include "jobspec/job_spec.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"
#include "worker/trainer/model/named_models.h"

namespace evenstep::trainer {

AttentionMask ToMask(jobspec::Attention attention);

// Of text.
DecoderConfig ToDecoderConfig(const jobspec::ModelSpec& model);

// Values of one patch.
int PatchValues(const jobspec::ModelSpec& model);
// Of video.
DiffusionTransformerConfig ToDiffusionTransformerConfig(
    const jobspec::ModelSpec& model);

// Of one with a name, for samples of at most `max_length` tokens.
ModelRequest ToModelRequest(const jobspec::ModelSpec& model,
                            int64_t max_length);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_MODEL_CONFIG_H_
