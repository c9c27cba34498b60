#include "worker/trainer/job/weights.h"

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/parse_value.h"
#include "data/safetensors.h"
#include "data/text/tokenizer.h"
#include "jobspec/decoder_memory.h"
#include "nlohmann/json.hpp"
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
        std::string(jobspec::AttentionName(model.attention));
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
    return data::WriteSafetensors(path, std::move(tensors),
                                  MakeMetadata(setup, steps_done), on_written);
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
       std::string(jobspec::PrecisionName(setup.spec.precision))}};
  return WriteFileAtomically(path, config.dump(2) + "\n");
}

}  // namespace evenstep::trainer
