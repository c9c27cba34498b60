#include "data/source_kind.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "data/latents/latents_dataset.h"
#include "data/megatron/megatron_dataset.h"
#include "data/synthetic_dataset.h"
#include "data/text/glob.h"
#include "data/text/text_dataset.h"

namespace evenstep::data {
namespace {

constexpr absl::string_view kText = "text:";

bool Always(absl::string_view /*rest*/) { return true; }

constexpr SourceKind kKinds[] = {
    {kText, "text:PATH", OpenTextDataset, LookForText, Always},
    {"megatron:", "megatron:PREFIX", OpenMegatronDataset, LookForMegatron,
     Always},
    {"latents:", "latents:PATH", OpenLatentsDataset, LookForText, Always},
    {"synthetic:", "synthetic:LAW", OpenSyntheticDataset, LookForSynthetic,
     IsSyntheticPath},
};

// "txt" of "txt:web"; empty: the source does not begin with a word and a colon.
absl::string_view WordBeforeColon(absl::string_view source) {
  const size_t end = source.find_first_not_of("abcdefghijklmnopqrstuvwxyz_-");
  if (end == absl::string_view::npos || source[end] != ':') return "";
  return source.substr(0, end);
}

// Text is what most people have.
std::string TextHint(absl::string_view path) {
  return absl::StrCat("; files of text are 'text:", path, "'");
}

std::string WhyNoKind(absl::string_view source) {
  std::vector<std::string> names;
  for (const SourceKind& kind : kKinds) {
    if (source == kind.prefix) {
      return absl::StrCat(
          "names nothing after the colon; it is ", kind.form,
          kind.prefix == kText ? ", a folder, a glob or a file" : "");
    }
    names.emplace_back(absl::StripSuffix(kind.prefix, ":"));
  }
  const absl::string_view word = WordBeforeColon(source);
  const std::string none = absl::StrCat("is none of ", SourceForms());
  if (word.empty()) return absl::StrCat(none, TextHint(source));
  const std::string nearest = NearestName(word, names);
  const absl::string_view rest = source.substr(word.size() + 1);
  if (nearest.empty()) return absl::StrCat(none, TextHint(rest));
  return absl::StrCat(none, "; did you mean '", nearest, ":", rest, "'?");
}

}  // namespace

absl::Status ExplainNoKind(absl::string_view source) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", source, "' ", WhyNoKind(source)));
}

bool LooksLikeSource(absl::string_view source) {
  return !WordBeforeColon(source).empty();
}

absl::Span<const SourceKind> SourceKinds() { return kKinds; }

const SourceKind* FindSourceKind(absl::string_view source) {
  for (const SourceKind& kind : kKinds) {
    if (absl::StartsWith(source, kind.prefix) &&
        source.size() > kind.prefix.size()) {
      return &kind;
    }
  }
  return nullptr;
}

std::string TextIfPath(absl::string_view source) {
  if (source.empty() || FindSourceKind(source) != nullptr) {
    return std::string(source);
  }
  const std::filesystem::path path{std::string(source)};
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(path, error);
  const std::string ending = path.extension().string();
  const bool is_file = std::filesystem::is_regular_file(status) &&
                       !ending.empty() && ending != ".yaml" && ending != ".yml";
  const bool is_pattern = !std::filesystem::exists(status) &&
                          !LooksLikeSource(source) && IsPattern(source);
  return absl::StrCat(
      std::filesystem::is_directory(status) || is_file || is_pattern ? kText
                                                                     : "",
      source);
}

std::string SourceForms() {
  std::vector<absl::string_view> forms;
  for (const SourceKind& kind : kKinds) forms.push_back(kind.form);
  return absl::StrJoin(forms, ", ");
}

absl::StatusOr<std::string> AbsoluteSource(absl::string_view source,
                                           absl::string_view base_dir) {
  const SourceKind* const kind = FindSourceKind(source);
  if (kind == nullptr) return std::string(source);
  const absl::string_view path = source.substr(kind->prefix.size());
  if (!kind->is_path(path)) return std::string(source);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(
      std::filesystem::path(std::string(base_dir)) / std::string(path), error);
  if (error) return ErrnoStatus(error.value(), "no absolute path of", path);
  return absl::StrCat(kind->prefix, absolute.lexically_normal().string());
}

absl::Status LookForSource(absl::string_view source) {
  const SourceKind* const kind = FindSourceKind(source);
  if (kind == nullptr) return ExplainNoKind(source);
  return kind->look(source.substr(kind->prefix.size()));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(
    const DatasetOptions& options) {
  const SourceKind* const kind = FindSourceKind(options.source);
  if (kind == nullptr) return ExplainNoKind(options.source);
  if (options.max_length < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_length is ", options.max_length, "; at least 1 token"));
  }
  return kind->open(
      options, absl::string_view(options.source).substr(kind->prefix.size()));
}

}  // namespace evenstep::data
