#include "worker/trainer/job/load_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "jobspec/weights_fit.h"
#include "jobspec/weights_model.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

using data::TensorPlace;

at::ScalarType TypeOf(const TensorPlace& place) {
  if (place.dtype == "F64") return at::kDouble;
  if (place.dtype == "BF16") return at::kBFloat16;
  return place.dtype == "F16" ? at::kHalf : at::kFloat;
}

std::vector<jobspec::TensorShape> ShapesOf(
    const std::vector<NamedParameter>& parameters) {
  std::vector<jobspec::TensorShape> shapes;
  for (const NamedParameter& parameter : parameters) {
    shapes.push_back({parameter.name, parameter.value.sizes().vec()});
  }
  return shapes;
}

// "[3, 0]", of the element that has this number in a tensor.
std::string ElementText(int64_t number, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indices(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    indices[i] = number % shape[i];
    number /= shape[i];
  }
  return jobspec::ShapeText(indices);
}

// A loss that is not finite would be blamed on the samples of its step.
absl::Status CheckFinite(const TensorPlace& place, const at::Tensor& stored,
                         const at::Tensor& value) {
  const at::Tensor finite = at::isfinite(value);
  if (finite.all().item<bool>()) return absl::OkStatus();
  const at::Tensor bad = finite.logical_not().flatten().cpu();
  const auto first = bad.to(at::kByte).argmax().item<int64_t>();
  const auto found = stored.flatten()[first].item<double>();
  const int64_t count = bad.sum().item<int64_t>();
  const std::string others =
      count == 1 ? ""
                 : absl::StrCat(", and ", count - 1, " more of the tensor");
  const bool overflows = std::isfinite(found);
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor '", place.name, "', element ", ElementText(first, place.shape),
      ", is ", found,
      overflows ? absl::StrCat(", which does not fit the job's precision, ",
                               at::toString(value.scalar_type()))
                : std::string(", which is not a finite number"),
      others));
}

absl::Status ReadValues(const TensorPlace& place,
                        const NamedParameter& parameter, std::ifstream* in) {
  std::string bytes(static_cast<size_t>(place.bytes), '\0');
  in->seekg(place.offset);
  in->read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (in->gcount() != static_cast<std::streamsize>(bytes.size())) {
    return absl::DataLossError(
        absl::StrCat("tensor '", place.name, "' cannot be read"));
  }
  const at::Tensor stored = at::from_blob(
      bytes.data(), place.shape, at::TensorOptions().dtype(TypeOf(place)));
  at::Tensor value = parameter.value;
  value.copy_(stored);
  return CheckFinite(place, stored, value);
}

absl::Status Load(const std::string& file,
                  const std::vector<NamedParameter>& parameters) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<const TensorPlace*> places,
                            jobspec::FindTensors(header, ShapesOf(parameters)));
  const at::NoGradGuard without_graph;
  std::ifstream in(file, std::ios::binary);
  for (size_t i = 0; i < places.size(); ++i) {
    EVENSTEP_RETURN_IF_ERROR(ReadValues(*places[i], parameters[i], &in));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadWeights(const std::string& path,
                         const std::vector<NamedParameter>& parameters) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  return jobspec::WithPath(
      CatchTorch("reading weights", [&] { return Load(file, parameters); }),
      file);
}

uint64_t WeightsKey(const std::vector<NamedParameter>& parameters) {
  Fnv1a64 key;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor value = parameter.value.detach().cpu().contiguous();
    key.AddString(parameter.name);
    key.AddBytes({static_cast<const char*>(value.data_ptr()), value.nbytes()});
  }
  return key.value();
}

}  // namespace evenstep::trainer
