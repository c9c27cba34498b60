#include "jobspec/input_check.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "data/source_kind.h"
#include "data/text/tokenizer.h"
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
  return Named("model.weights", weights, CheckWeightsFit(weights, spec.model));
}

}  // namespace evenstep::jobspec
