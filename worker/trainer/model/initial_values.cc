#include "evenstep/trainer/initial_values.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <numbers>

namespace evenstep::trainer {
namespace {

// Elements of one task; enough work to be worth a thread.
constexpr int64_t kGrain = 16384;

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t Key(uint64_t seed, absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return Mix(hash ^ Mix(seed + 0x9e3779b97f4a7c15ULL));
}

// In (0, 1].
double Uniform(uint64_t key, uint64_t counter) {
  const uint64_t bits = Mix(key + counter * 0x9e3779b97f4a7c15ULL);
  return static_cast<double>((bits >> 11) + 1) * 0x1.0p-53;
}

// Box and Muller, 1958.
double Normal(uint64_t key, uint64_t index) {
  const double radius = std::sqrt(-2.0 * std::log(Uniform(key, 2 * index)));
  return radius *
         std::cos(2.0 * std::numbers::pi * Uniform(key, 2 * index + 1));
}

template <typename T>
void Fill(uint64_t key, double deviation, T* into, int64_t count) {
  at::parallel_for(0, count, kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      into[i] = static_cast<T>(deviation * Normal(key, i));
    }
  });
}

}  // namespace

double NormalAt(uint64_t seed, absl::string_view name, uint64_t index) {
  return Normal(Key(seed, name), index);
}

void FillNormal(uint64_t seed, absl::string_view name, double deviation,
                const at::Tensor& into) {
  const uint64_t key = Key(seed, name);
  if (into.scalar_type() == at::kDouble) {
    Fill(key, deviation, into.mutable_data_ptr<double>(), into.numel());
  } else if (into.scalar_type() == at::kBFloat16) {
    Fill(key, deviation, into.mutable_data_ptr<at::BFloat16>(), into.numel());
  } else {
    Fill(key, deviation, into.mutable_data_ptr<float>(), into.numel());
  }
}

}  // namespace evenstep::trainer
