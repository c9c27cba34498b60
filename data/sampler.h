#ifndef EVENSTEP_DATA_SAMPLER_H_
#define EVENSTEP_DATA_SAMPLER_H_

// Which samples a step trains on: a pure function of (seed, step), the same on
// every rank, whatever the policy and the world (law 1). A sample's id is its
// position in seeded permutations of all documents laid end to end, so a
// document that comes again in a later permutation is another sample.
// Thread-safe: no state after construction.

#include <cstdint>
#include <vector>

namespace evenstep::data {

class Sampler {
 public:
  // num_documents and samples_per_step at least 1.
  Sampler(uint64_t seed, int64_t num_documents, int64_t samples_per_step);

  // Ids of step `step`, ascending: [step * B, (step + 1) * B).
  std::vector<int64_t> SampleIds(int64_t step) const;
  // Ids of the step that `rank` of `world` reports: those at i mod world ==
  // rank.
  std::vector<int64_t> ReportShare(int64_t step, int rank, int world) const;
  // Document behind a sample id, in [0, num_documents).
  int64_t Document(int64_t sample_id) const;

 private:
  uint64_t seed_;
  int64_t num_documents_;
  int64_t samples_per_step_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SAMPLER_H_
