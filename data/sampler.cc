#include "data/sampler.h"

#include "base/check.h"

namespace evenstep::data {
namespace {

// Rounds of the Feistel network; four would do for large domains, small ones
// need more to look shuffled.
constexpr int kRounds = 8;

// SplitMix64's finaliser: a bijection of 64 bits that mixes well.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Bits of one half, so that two halves number at least `size` values.
int HalfBits(uint64_t size) {
  int bits = 1;
  while (bits < 31 && (uint64_t{1} << (2 * bits)) < size) ++bits;
  return bits;
}

// A permutation of [0, 2^(2 * half_bits)).
uint64_t Feistel(uint64_t key, int half_bits, uint64_t value) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t mixed =
        left ^ (Mix(key ^ Mix(right * kRounds + round)) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

// A permutation of [0, size): the network's values outside are walked through.
// The walk ends because it runs on the cycle that holds `position`.
uint64_t Permute(uint64_t key, uint64_t size, uint64_t position) {
  const int half_bits = HalfBits(size);
  uint64_t value = position;
  do {
    value = Feistel(key, half_bits, value);
  } while (value >= size);
  return value;
}

}  // namespace

Sampler::Sampler(uint64_t seed, int64_t num_documents, int64_t samples_per_step)
    : seed_(seed),
      num_documents_(num_documents),
      samples_per_step_(samples_per_step) {
  EVENSTEP_CHECK(num_documents >= 1, "a sampler needs a document");
  EVENSTEP_CHECK(num_documents <= int64_t{1} << 62, "too many documents");
  EVENSTEP_CHECK(samples_per_step >= 1, "a step needs a sample");
}

std::vector<int64_t> Sampler::SampleIds(int64_t step) const {
  return ReportShare(step, 0, 1);
}

std::vector<int64_t> Sampler::ReportShare(int64_t step, int rank,
                                          int world) const {
  std::vector<int64_t> ids;
  for (int64_t i = rank; i < samples_per_step_; i += world) {
    ids.push_back(step * samples_per_step_ + i);
  }
  return ids;
}

int64_t Sampler::Document(int64_t sample_id) const {
  const int64_t permutation = sample_id / num_documents_;
  const int64_t position = sample_id % num_documents_;
  const uint64_t key = Mix(Mix(seed_) ^ static_cast<uint64_t>(permutation));
  return static_cast<int64_t>(Permute(key, num_documents_, position));
}

}  // namespace evenstep::data
