#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/parse_value.h"
#include "data/source_kind.h"
#include "jobspec/job_keys.h"
#include "jobspec/rules/rule_parts.h"

namespace evenstep::jobspec {
namespace {

constexpr absl::string_view kLatents = "latents:";

// What is made up is all in the source's own text: no file is looked for.
Found LawRule(absl::string_view key, const data::SourceKind& kind,
              absl::string_view source) {
  const absl::string_view rest = source.substr(kind.prefix.size());
  if (kind.is_path(rest)) return std::nullopt;
  const absl::Status sound = kind.look(rest);
  if (sound.ok()) return std::nullopt;
  return RuleBreak{std::string(key), std::string(sound.message())};
}

// Data whose ids are those of its files may have any; only reading shows.
Found VocabRule(const DataSpec& data, const ModelSpec& model) {
  if (model.vocab >= data::kByteVocab) return std::nullopt;
  const bool is_bytes =
      (absl::StartsWith(data.source, "text:") && data.tokenizer.empty()) ||
      absl::StartsWith(data.source, "synthetic:");
  if (!is_bytes) return std::nullopt;
  return RuleBreak{"model.vocab",
                   absl::StrCat(model.vocab, " is below ", data::kByteVocab,
                                ": the tokens of ", data.source,
                                " are bytes, 0 to 255, and an end token")};
}

Found SourceRule(absl::string_view key, const std::string& source,
                 const ModelSpec& model) {
  Found text = TextRule(key, source, kMaxSourceBytes);
  if (text.has_value()) return text;
  const data::SourceKind* const kind = data::FindSourceKind(source);
  if (kind == nullptr) {
    return RuleBreak{std::string(key),
                     std::string(data::ExplainNoKind(source).message())};
  }
  if (absl::StartsWith(source, kLatents) == model.is_video()) {
    return LawRule(key, *kind, source);
  }
  return RuleBreak{std::string(key),
                   absl::StrCat("'", source, "' is not what a ",
                                WordOf("model.kind", model.kind),
                                " model is trained on; video takes ", kLatents,
                                "PATH, text the others")};
}

Found TokenizerRule(const DataSpec& data) {
  if (data.tokenizer.empty()) return std::nullopt;
  Found text = TextRule("data.tokenizer", data.tokenizer, kMaxSourceBytes);
  if (text.has_value() || absl::StartsWith(data.source, "text:")) return text;
  return RuleBreak{"data.tokenizer",
                   absl::StrCat("'", data.source,
                                "' has tokens of its own; a tokenizer is for "
                                "text:PATH")};
}

}  // namespace

Found DataRules(const JobSpec& spec) {
  Found found =
      FirstOf({SourceRule("data.source", spec.data.source, spec.model),
               TokenizerRule(spec.data), VocabRule(spec.data, spec.model)});
  if (found.has_value()) return found;
  if (spec.model.is_video()) {
    return InRange("data.given_frames", spec.data.given_frames, 0.0, 1.0);
  }
  if (spec.data.given_frames == 0) return std::nullopt;
  return RuleBreak{"data.given_frames", "is of video; the model is text"};
}

Found EvaluationRules(const JobSpec& spec) {
  const EvaluationSpec& evaluation = spec.evaluation;
  Found ranges = FirstOf({
      InRange<int64_t>("evaluation.every", evaluation.every, 0, kMaxSteps),
      InRange<int64_t>("evaluation.samples", evaluation.samples, 0,
                       std::numeric_limits<int64_t>::max()),
  });
  if (ranges.has_value()) return ranges;
  if (!(evaluation.share >= 0 && evaluation.share < 1)) {
    return RuleBreak{"evaluation.share",
                     absl::StrCat(evaluation.share,
                                  " is not from 0 to below 1; it is a share, "
                                  "not percent")};
  }
  if (!evaluation.enabled()) {
    if (evaluation.every == 0 && evaluation.samples == 0) return std::nullopt;
    return RuleBreak{
        evaluation.every > 0 ? "evaluation.every" : "evaluation.samples",
        "there is nothing to evaluate on; name "
        "evaluation.share or evaluation.source"};
  }
  if (evaluation.source.empty()) return std::nullopt;
  if (evaluation.share > 0) {
    return RuleBreak{"evaluation.source",
                     "cannot be combined with evaluation.share"};
  }
  if (absl::StripSuffix(evaluation.source, "/") ==
      absl::StripSuffix(spec.data.source, "/")) {
    return RuleBreak{"evaluation.source",
                     absl::StrCat("'", evaluation.source,
                                  "' is what is trained on; a part of it is "
                                  "held out with evaluation.share")};
  }
  return SourceRule("evaluation.source", evaluation.source, spec.model);
}

}  // namespace evenstep::jobspec
