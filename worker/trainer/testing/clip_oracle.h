#ifndef EVENSTEP_WORKER_TRAINER_TESTING_CLIP_ORACLE_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_CLIP_ORACLE_H_

// The slow, obvious diffusion Transformer that defines what the engine must
// compute for video: one clip at a time as a tensor of frames and patches,
// explicit softmax, torch's plain operations, autograd. Shares no code with
// model/ and parallel/ but the parameters' names and the random numbers of a
// sample. For tests.

#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "worker/trainer/model/diffusion_transformer.h"
#include "worker/trainer/testing/oracle.h"

namespace evenstep::trainer::testing {

// Loss of one process over `samples`, whose ids are parallel; its gradient
// replaces the parameters' grad(). `seed` is the job's.
OracleResult RunClipOracle(const DiffusionTransformerConfig& config,
                           const std::vector<NamedParameter>& parameters,
                           const std::vector<data::SampleTokens>& samples,
                           const std::vector<int64_t>& sample_ids,
                           uint64_t seed);

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_CLIP_ORACLE_H_
