#ifndef EVENSTEP_WORKER_TRAINER_JOB_TRAINER_SETUP_H_
#define EVENSTEP_WORKER_TRAINER_JOB_TRAINER_SETUP_H_

// What a rank is told to run, checked: the plain form of the agent's Start
// message. Made once, read by every part of the loop. Plain data.

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evenstep/trainer/model_request.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "jobspec/job_spec.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"

namespace evenstep::trainer {

struct TrainerSetup {
  std::string job_id;
  int attempt = 1;
  int64_t generation = 0;
  int rank = 0;
  int world = 1;
  int local_rank = 0;                    // place among the ranks of its node
  std::vector<int> ranks_per_node = {};  // empty: all on one
  jobspec::JobSpec spec;
  std::string listen_host;
  std::string output_dir;
  int threads = 1;
  // Where tensors stand; set by the process once it has one of its own.
  c10::Device device = c10::kCPU;
  std::string device_name;  // its maker's; empty on CPU
  // Beside the trainer's own; null: none. Not owned.
  const NamedModels* models = nullptr;
  // The link that collectives emulate, for people; empty outside benchmarks.
  std::string emulated_link;
};

// INVALID_ARGUMENT with the numbers: the job breaks a rule, or rank, world and
// ranks per node do not fit each other or `connected_rank`, the rank that this
// process was started as.
absl::StatusOr<TrainerSetup> MakeTrainerSetup(const v1::Start& start,
                                              int connected_rank);

// Models as a job describes them, in the trainer's words. Called where a job's
// model is made (engine.h), and where one is made again from its weights
// (generate/load_model.h). Seed, dtype and device are the caller's. Pure.

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

#endif  // EVENSTEP_WORKER_TRAINER_JOB_TRAINER_SETUP_H_
