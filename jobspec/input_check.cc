#include "jobspec/input_check.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "data/safetensors.h"
#include "data/source_kind.h"
#include "data/text/tokenizer.h"
#include "data/weights_file.h"
#include "jobspec/weights_model.h"

namespace evenstep::jobspec {
namespace {

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "KEY PATH: sentence", with the path once.
absl::Status Named(absl::string_view key, absl::string_view path,
                   const absl::Status& status) {
  if (status.ok()) return status;
  if (absl::StrContains(status.message(), path)) {
    return absl::Status(status.code(),
                        absl::StrCat(key, ": ", status.message()));
  }
  return absl::Status(status.code(),
                      absl::StrCat(key, " ", path, ": ", status.message()));
}

absl::Status CheckSource(absl::string_view key, const std::string& source,
                         const InputCheckOptions& options) {
  const data::SourceKind* const kind = data::FindSourceKind(source);
  if (source.empty() || kind == nullptr) return absl::OkStatus();
  // A folder of text or clips may be large: agents leave it to the ranks.
  const bool is_list = kind->prefix == "text:" || kind->prefix == "latents:";
  if (is_list && options.depth == InputDepth::kHeaders) return absl::OkStatus();
  const absl::Status found = data::LookForSource(source);
  if (absl::IsNotFound(found) && options.place == InputPlace::kMayBeElsewhere) {
    return absl::OkStatus();
  }
  const bool names_file =
      kind->prefix == "megatron:" &&
      (absl::EndsWith(source, ".bin") || absl::EndsWith(source, ".idx"));
  if (absl::IsNotFound(found) && names_file) {
    return Named(key, source,
                 absl::NotFoundError(absl::StrCat(
                     found.message(), "; name what the two files share: ",
                     source.substr(0, source.size() - 4))));
  }
  return Named(key, source, found);
}

absl::Status CheckTokenizer(const JobSpec& spec,
                            const InputCheckOptions& options) {
  const std::string& path = spec.data.tokenizer;
  if (path.empty()) return absl::OkStatus();
  if (options.depth == InputDepth::kHeaders) {
    return Named("data.tokenizer", path, data::LookForTokenizer(path));
  }
  const auto tokenizer = data::OpenTokenizer(path);
  if (!tokenizer.ok()) return Named("data.tokenizer", path, tokenizer.status());
  const int32_t vocab = (*tokenizer)->vocab();
  if (vocab <= spec.model.vocab) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "data.tokenizer ", path, ": it has ", vocab, " pieces, the model ",
      spec.model.vocab, "; set model.vocab to ", vocab, " or more"));
}

// What to do about a model's tokenizer that the job does not name. `folder`:
// that of the weights.
std::string HowToTokenize(const std::string& folder) {
  const std::string model = folder + "/tokenizer.model";
  if (IsThere(model)) return absl::StrCat("set data.tokenizer: ", model);
  if (IsThere(folder + "/tokenizer.json")) {
    return "only SentencePiece models (tokenizer.model) are read, and there is "
           "only a tokenizer.json: tokenize the data with the model's own "
           "tokenizer, and train on megatron:PREFIX (docs/data.md has the "
           "command)";
  }
  return "name the model's SentencePiece model with data.tokenizer";
}

// Weights of elsewhere mean the pieces of their own tokenizer; without
// data.tokenizer the ids of text are bytes.
absl::Status CheckTokensOfWeights(const JobSpec& spec) {
  if (!spec.data.tokenizer.empty() ||
      !absl::StartsWith(spec.data.source, "text:")) {
    return absl::OkStatus();
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(spec.model.weights));
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  if (header.metadata.count("evenstep.tokenizer") > 0) return absl::OkStatus();
  const std::string folder = std::filesystem::path(file).parent_path().string();
  std::string why;
  for (const char* const name : {"tokenizer.model", "tokenizer.json"}) {
    if (why.empty() && IsThere(absl::StrCat(folder, "/", name))) {
      why = absl::StrCat("a ", name, " beside them");
    }
  }
  if (why.empty() && spec.model.vocab != data::kByteVocab) {
    why = absl::StrCat("a vocabulary of ", spec.model.vocab, ", not the ",
                       data::kByteVocab, " of bytes");
  }
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the job has no data.tokenizer, so text is trained as "
                   "bytes, and these weights have ",
                   why, "; ", HowToTokenize(folder)));
}

}  // namespace

absl::Status CheckInputs(const JobSpec& spec,
                         const InputCheckOptions& options) {
  const auto elsewhere = [&](const std::string& path) {
    return options.place == InputPlace::kMayBeElsewhere && !IsThere(path);
  };
  EVENSTEP_RETURN_IF_ERROR(
      CheckSource("data.source", spec.data.source, options));
  EVENSTEP_RETURN_IF_ERROR(
      CheckSource("evaluation.source", spec.evaluation.source, options));
  if (!elsewhere(spec.data.tokenizer)) {
    EVENSTEP_RETURN_IF_ERROR(CheckTokenizer(spec, options));
  }
  const std::string& weights = spec.model.weights;
  if (weights.empty() || elsewhere(weights)) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(
      Named("model.weights", weights, CheckWeightsFit(weights, spec.model)));
  return Named("model.weights", weights, CheckTokensOfWeights(spec));
}

}  // namespace evenstep::jobspec
