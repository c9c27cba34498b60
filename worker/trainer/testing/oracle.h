#ifndef EVENSTEP_WORKER_TRAINER_TESTING_ORACLE_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_ORACLE_H_

// The slow, obvious decoder that defines what the engine must compute: one
// document at a time, explicit softmax over a masked square of scores, torch's
// plain operations, autograd. Shares no code with model/ and parallel/ but the
// parameters' names. And the same around the loss of any other model. For
// tests.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "evenstep/trainer/model.h"
#include "worker/trainer/model/decoder.h"

namespace evenstep::trainer::testing {

struct OracleResult {
  double loss = 0;  // mean over trained tokens of all samples
  int64_t trained_tokens = 0;
};

// Parameters by name.
using Weights = std::map<std::string, at::Tensor>;
// The sum of the losses of one sample, with a graph.
using SampleLoss = std::function<at::Tensor(const Weights& weights,
                                            const data::SampleTokens& sample)>;

// Loss of one process over `samples`, one at a time; its gradient replaces the
// parameters' grad().
OracleResult RunOracle(const SampleLoss& loss,
                       const std::vector<NamedParameter>& parameters,
                       const std::vector<data::SampleTokens>& samples);
// The same of the decoder.
OracleResult RunOracle(const DecoderConfig& config,
                       const std::vector<NamedParameter>& parameters,
                       const std::vector<data::SampleTokens>& samples);

// Copies whose gradients are their own; of bfloat16, in float32.
std::vector<NamedParameter> CopyParameters(
    const std::vector<NamedParameter>& parameters);

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_ORACLE_H_
