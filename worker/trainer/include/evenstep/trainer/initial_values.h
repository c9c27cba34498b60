#ifndef EVENSTEP_TRAINER_INITIAL_VALUES_H_
#define EVENSTEP_TRAINER_INITIAL_VALUES_H_

// Initial parameters by a counter-based generator: element i of a parameter is
// a pure function of (seed, name, i). So they depend on neither world, order
// nor the version of torch, and float32 and bfloat16 hold the rounded float64
// values.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/strings/string_view.h"

namespace evenstep::trainer {

// A number with a standard normal distribution.
double NormalAt(uint64_t seed, absl::string_view name, uint64_t index);

// Fills a contiguous float, double or bfloat16 tensor on the CPU, with mean 0.
void FillNormal(uint64_t seed, absl::string_view name, double deviation,
                const at::Tensor& into);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_INITIAL_VALUES_H_
