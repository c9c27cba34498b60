#ifndef EVENSTEP_WORKER_TRAINER_OPTIM_FLAT_PARAMETERS_H_
#define EVENSTEP_WORKER_TRAINER_OPTIM_FLAT_PARAMETERS_H_

// Parameters laid end to end, so that runs of elements can be updated and
// gathered without copies and without regard to tensors. Main thread only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "evenstep/trainer/model.h"
#include "worker/trainer/optim/sharding.h"

namespace evenstep::trainer {

int64_t CountElements(const std::vector<NamedParameter>& parameters);

// What of one parameter lies in a run of elements.
struct ParameterSlice {
  size_t parameter = 0;  // index
  int64_t offset = 0;    // first element, within the parameter
  int64_t count = 0;
  int64_t shard_offset = 0;  // first element, within the run
};

// In order; together they are the run.
std::vector<ParameterSlice> SlicesOf(
    const std::vector<NamedParameter>& parameters, const ElementRange& range);

// Moves the parameters' storage into one new tensor, which is returned: they
// become views of it, for everyone who holds them. All have one dtype.
at::Tensor MoveIntoOneTensor(const std::vector<NamedParameter>& parameters);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_OPTIM_FLAT_PARAMETERS_H_
