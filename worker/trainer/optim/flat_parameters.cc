#include "worker/trainer/optim/flat_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace evenstep::trainer {

int64_t CountElements(const std::vector<NamedParameter>& parameters) {
  int64_t count = 0;
  for (const NamedParameter& p : parameters) count += p.value.numel();
  return count;
}

std::vector<ParameterSlice> SlicesOf(
    const std::vector<NamedParameter>& parameters, const ElementRange& range) {
  std::vector<ParameterSlice> slices;
  int64_t start = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t end = start + parameters[i].value.numel();
    const int64_t from = std::max(start, range.begin);
    const int64_t to = std::min(end, range.end);
    if (from < to) {
      slices.push_back({i, from - start, to - from, from - range.begin});
    }
    start = end;
  }
  return slices;
}

at::Tensor MoveIntoOneTensor(const std::vector<NamedParameter>& parameters) {
  at::NoGradGuard without_graph;
  const at::Tensor flat =
      at::empty({CountElements(parameters)},
                parameters.front().value.options().requires_grad(false));
  int64_t start = 0;
  for (const NamedParameter& p : parameters) {
    const at::Tensor view =
        flat.narrow(0, start, p.value.numel()).view(p.value.sizes());
    view.copy_(p.value);
    p.value.set_data(view);
    start += p.value.numel();
  }
  return flat;
}

}  // namespace evenstep::trainer
