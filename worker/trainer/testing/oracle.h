#ifndef EVENSTEP_WORKER_TRAINER_TESTING_ORACLE_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_ORACLE_H_

// The slow, obvious decoder that defines what the engine must compute: one
// document at a time, explicit softmax over a masked square of scores, torch's
// plain operations, autograd. Shares no code with model/ and parallel/ but the
// parameters' names. For tests.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/model.h"

namespace evenstep::trainer::testing {

struct OracleResult {
  double loss = 0;  // mean over trained tokens of all samples
  int64_t trained_tokens = 0;
};

// Loss of one process over `samples`; its gradient replaces the parameters'
// grad().
OracleResult RunOracle(const DecoderConfig& config,
                       const std::vector<NamedParameter>& parameters,
                       const std::vector<data::SampleTokens>& samples);

// Copies whose gradients are their own; of bfloat16, in float32.
std::vector<NamedParameter> CopyParameters(
    const std::vector<NamedParameter>& parameters);

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_ORACLE_H_
