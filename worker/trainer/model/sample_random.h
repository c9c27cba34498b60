#ifndef EVENSTEP_WORKER_TRAINER_MODEL_SAMPLE_RANDOM_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_SAMPLE_RANDOM_H_

// Everything random about a sample in training: a pure function of the job's
// seed, the sample's id, what it is for, and the absolute token and channel. So
// each rank makes just its own part, and results depend neither on placement,
// degree, policy nor order. A sample's id is its position in the job
// (data/sampler.h), so it names the step too: a document that comes again is
// another sample with other noise. Immutable; thread-safe.

#include <cmath>
#include <cstdint>

#include "base/counter_random.h"

namespace evenstep::trainer {

class SampleRandom {
 public:
  SampleRandom(uint64_t seed, int64_t sample_id)
      : random_(seed), id_(static_cast<uint64_t>(sample_id)) {}

  // How far a sample is noised, in (0, 1): the logistic function of a normal
  // number, which prefers the middle (Esser et al., 2024).
  double Timestep() const {
    return 1 / (1 + std::exp(-random_.Stream(kTimestep).Normal(id_)));
  }

  // Standard normal. `token` counts within the sample.
  double Noise(int64_t token, int64_t channel) const {
    return random_.Stream(kNoise).Normal(id_, static_cast<uint64_t>(token),
                                         static_cast<uint64_t>(channel));
  }

  // Leading frames that the model is given: with this probability one or more,
  // but never all; else 0.
  int64_t GivenFrames(int64_t frames, double probability) const {
    const CounterRandom stream = random_.Stream(kGivenFrames);
    if (frames < 2 || stream.Uniform(id_, 0) >= probability) return 0;
    return 1 + static_cast<int64_t>(stream.Bits(id_, 1) %
                                    static_cast<uint64_t>(frames - 1));
  }

 private:
  enum Purpose : uint64_t { kTimestep = 1, kNoise = 2, kGivenFrames = 3 };

  CounterRandom random_;
  uint64_t id_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_SAMPLE_RANDOM_H_
