#include "worker/trainer/job/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/log.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "data/text/tokenizer.h"
#include "data/weights_file.h"
#include "jobspec/job_keys.h"
#include "jobspec/plan_request.h"
#include "jobspec/weights_fit.h"
#include "jobspec/weights_model.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/link/failure.h"
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
      {"evenstep.attempt", absl::StrCat(setup.attempt)},
      {"evenstep.steps", absl::StrCat(steps_done)},
      {"evenstep.ended_early",
       steps_done < setup.spec.steps ? "true" : "false"},
      {"evenstep.seed", absl::StrCat(setup.spec.seed)},
      {"evenstep.model.layers", absl::StrCat(model.layers)},
      {"evenstep.model.width", absl::StrCat(model.width)},
      {"evenstep.model.heads", absl::StrCat(model.heads)}};
  if (!model.name.empty()) {
    metadata["evenstep.model.name"] = model.name;
    metadata[kMaxLengthKey] = absl::StrCat(setup.spec.data.max_length);
  }
  if (model.is_video()) {
    metadata["evenstep.model.kind"] = "video";
    metadata["evenstep.model.channels"] = absl::StrCat(model.channels);
    metadata["evenstep.model.patch"] = absl::StrCat(model.patch);
  } else {
    metadata["evenstep.model.kv_heads"] = absl::StrCat(model.kv_heads);
    metadata["evenstep.model.vocab"] = absl::StrCat(model.vocab);
    metadata["evenstep.model.mlp_width"] =
        absl::StrCat(jobspec::MlpWidthOf(model));
    metadata["evenstep.model.rope_theta"] = FormatValue(model.rope_theta);
    metadata["evenstep.model.norm_epsilon"] = FormatValue(model.norm_epsilon);
    metadata["evenstep.model.attention"] =
        std::string(jobspec::WordOf("model.attention", model.attention));
    metadata["evenstep.tokenizer"] = setup.spec.data.tokenizer;
  }
  if (!model.weights.empty()) {
    metadata["evenstep.model.weights"] = model.weights;
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

// The token that ends a text; null where tokens come from elsewhere.
nlohmann::ordered_json EndTokenOf(const jobspec::DataSpec& spec) {
  if (!absl::StartsWith(spec.source, "text:")) return nullptr;
  const auto tokenizer = data::OpenTokenizer(spec.tokenizer);
  if (tokenizer.ok()) return (*tokenizer)->end_token();
  // It has trained with it, and the weights are worth more than this number.
  Log(LogLevel::kWarning, "end_token_not_known",
      {{"reason", tokenizer.status()}});
  return nullptr;
}

}  // namespace

absl::Status WriteWeights(const std::string& path, const TrainerSetup& setup,
                          const std::vector<NamedParameter>& parameters,
                          int64_t steps_done,
                          const data::WriteProgress& on_written) {
  return CatchTorch(absl::StrCat("writing ", path), [&] {
    std::vector<at::Tensor> values;  // what the bytes point to, on the host
    std::vector<TensorBytes> tensors;
    for (const NamedParameter& parameter : parameters) {
      values.push_back(parameter.value.detach().cpu().contiguous());
      tensors.push_back(ToBytes(parameter.name, values.back()));
    }
    const absl::Status written = data::WriteSafetensors(
        path, std::move(tensors), MakeMetadata(setup, steps_done), on_written);
    // ENOSPC and EDQUOT, EFBIG.
    const bool full =
        absl::IsResourceExhausted(written) || absl::IsOutOfRange(written);
    return full ? WithReason(written, FailureReason::kStorageFull,
                             steps_done - 1)
                : written;
  });
}

absl::Status WriteLlamaConfig(const std::string& path,
                              const TrainerSetup& setup) {
  const jobspec::ModelSpec& model = setup.spec.model;
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", model.vocab},
      {"hidden_size", model.width},
      {"intermediate_size", jobspec::MlpWidthOf(model)},
      {"num_hidden_layers", model.layers},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", model.kv_heads},
      {"head_dim", model.width / model.heads},
      {"max_position_embeddings", setup.spec.data.max_length},
      {"hidden_act", "silu"},
      {"rms_norm_eps", model.norm_epsilon},
      {"rope_theta", model.rope_theta},
      {"rope_parameters",
       {{"rope_theta", model.rope_theta}, {"rope_type", "default"}}},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", false},
      {"bos_token_id", nullptr},
      {"eos_token_id", EndTokenOf(setup.spec.data)},
      {"torch_dtype",
       std::string(jobspec::WordOf("precision", setup.spec.precision))}};
  return WriteFileAtomically(path, config.dump(2) + "\n");
}

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
