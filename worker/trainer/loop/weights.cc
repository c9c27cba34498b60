#include "worker/trainer/loop/weights.h"

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "data/safetensors.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

using data::SafetensorsMetadata;
using data::TensorBytes;

SafetensorsMetadata MakeMetadata(const TrainerSetup& setup,
                                 int64_t steps_done) {
  const jobspec::ModelSpec& model = setup.spec.model;
  SafetensorsMetadata metadata = {
      {"format", "pt"},
      {"evenstep.job", setup.job_id},
      {"evenstep.steps", absl::StrCat(steps_done)},
      {"evenstep.seed", absl::StrCat(setup.spec.seed)},
      {"evenstep.model.layers", absl::StrCat(model.layers)},
      {"evenstep.model.width", absl::StrCat(model.width)},
      {"evenstep.model.heads", absl::StrCat(model.heads)}};
  if (!model.name.empty()) metadata["evenstep.model.name"] = model.name;
  if (model.is_video()) {
    metadata["evenstep.model.kind"] = "video";
    metadata["evenstep.model.channels"] = absl::StrCat(model.channels);
    metadata["evenstep.model.patch"] = absl::StrCat(model.patch);
  } else {
    metadata["evenstep.model.kv_heads"] = absl::StrCat(model.kv_heads);
    metadata["evenstep.model.vocab"] = absl::StrCat(model.vocab);
  }
  return metadata;
}

std::string DtypeName(at::ScalarType type) {
  if (type == at::kDouble) return "F64";
  return type == at::kBFloat16 ? "BF16" : "F32";
}

TensorBytes ToBytes(const std::string& name, const at::Tensor& value) {
  return {name,
          DtypeName(value.scalar_type()),
          value.sizes().vec(),
          {static_cast<const char*>(value.data_ptr()), value.nbytes()}};
}

}  // namespace

absl::Status WriteWeights(const std::string& path, const TrainerSetup& setup,
                          const std::vector<NamedParameter>& parameters,
                          int64_t steps_done) {
  return CatchTorch(absl::StrCat("writing ", path), [&] {
    std::vector<at::Tensor> values;  // what the bytes point to, on the host
    std::vector<TensorBytes> tensors;
    for (const NamedParameter& parameter : parameters) {
      values.push_back(parameter.value.detach().cpu().contiguous());
      tensors.push_back(ToBytes(parameter.name, values.back()));
    }
    return data::WriteSafetensors(path, std::move(tensors),
                                  MakeMetadata(setup, steps_done));
  });
}

}  // namespace evenstep::trainer
