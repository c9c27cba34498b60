#ifndef EVENSTEP_BASE_COUNTER_RANDOM_H_
#define EVENSTEP_BASE_COUNTER_RANDOM_H_

// Random numbers that are a pure function of (seed, counters): a draw does not
// depend on how many were taken before it, so changing one part of a simulation
// leaves the noise of all others as it was. SplitMix64's finaliser over the
// counters. Immutable; safe to share between threads. Not for cryptography.
//
//   const CounterRandom random(seed);
//   double slow = 1 + 0.1 * random.Uniform(rank, layer);

#include <cmath>
#include <cstdint>
#include <numbers>

namespace evenstep {

class CounterRandom {
 public:
  explicit CounterRandom(uint64_t seed) : key_(Mix(seed)) {}

  // A generator of its own for one purpose: streams do not overlap.
  CounterRandom Stream(uint64_t stream) const {
    return CounterRandom(key_ ^ Mix(stream + 0x5851f42d4c957f2dULL));
  }

  // 64 bits, all of them mixed.
  uint64_t Bits(uint64_t a, uint64_t b = 0, uint64_t c = 0) const {
    return Mix(Mix(Mix(key_ ^ a) + b) ^ (c * 0xd1342543de82ef95ULL));
  }
  // In [0, 1), a multiple of 2^-53.
  double Uniform(uint64_t a, uint64_t b = 0, uint64_t c = 0) const {
    return ToUnit(Bits(a, b, c));
  }
  // Standard normal, by Box and Muller.
  double Normal(uint64_t a, uint64_t b = 0, uint64_t c = 0) const {
    const uint64_t bits = Bits(a, b, c);
    const double u = 1 - ToUnit(bits);  // in (0, 1]
    const double v = ToUnit(Mix(bits));
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

 private:
  static uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  static double ToUnit(uint64_t bits) {
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
  }

  uint64_t key_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_COUNTER_RANDOM_H_
