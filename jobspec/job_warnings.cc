#include "jobspec/job_warnings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "jobspec/llama_config.h"
#include "jobspec/weights_fit.h"

namespace evenstep::jobspec {
namespace {

using Warnings = std::vector<std::string>;

// Samples repeat within a step only if there are fewer than it takes.
void AddFewSamples(const JobSpec& spec, const DataFacts& data,
                   Warnings* warnings) {
  const int64_t batch = spec.batch_samples;
  if (data.num_samples < 1 || data.num_samples >= batch) return;
  const std::string noun = spec.model.is_video() ? "clip" : "document";
  warnings->push_back(absl::StrFormat(
      "a step draws %d samples from %s: each is in every step, %.3g times on "
      "average; batch.samples of %d or fewer would repeat none within a step",
      batch, Counted(data.num_samples, noun),
      static_cast<double>(batch) / static_cast<double>(data.num_samples),
      data.num_samples));
}

void AddFewEvaluated(const JobSpec& spec, const DataFacts& data,
                     Warnings* warnings) {
  if (!spec.evaluation.enabled() ||
      data.num_evaluated >= spec.evaluation.samples) {
    return;
  }
  warnings->push_back(absl::StrCat(
      "evaluation.samples is ", spec.evaluation.samples, ", and only ",
      Counted(data.num_evaluated, "sample"), " can be evaluated"));
}

std::string TokenizerText(absl::string_view path) {
  return path.empty() ? "bytes" : std::string(path);
}

void AddTokenizer(const JobSpec& spec, const data::SafetensorsHeader& header,
                  Warnings* warnings) {
  const auto theirs = header.metadata.find("evenstep.tokenizer");
  if (theirs == header.metadata.end() ||
      !absl::StartsWith(spec.data.source, "text:") ||
      theirs->second == spec.data.tokenizer) {
    return;
  }
  warnings->push_back(
      absl::StrCat("model.weights was trained with the tokenizer ",
                   TokenizerText(theirs->second), ", data.tokenizer is ",
                   TokenizerText(spec.data.tokenizer),
                   ": the same ids may mean other text"));
}

void AddTiedHead(const data::SafetensorsHeader& header, Warnings* warnings) {
  if (header.Find(kHeadTensor) != nullptr) return;
  warnings->push_back(absl::StrCat(
      "model.weights has no ", kHeadTensor,
      ": the head begins as the embedding, and the two are trained apart"));
}

void AddLength(const std::string& file, const DataFacts& data,
               Warnings* warnings) {
  const auto config = ReadConfigBeside(file);
  if (!config.ok()) return;
  const auto positions = MaxPositions(*config);
  if (!positions.ok() || *positions == 0 || data.longest <= *positions) return;
  warnings->push_back(absl::StrCat(
      "the longest sample has ", data.longest,
      " tokens, and the config.json of model.weights says that the model was "
      "made for ",
      *positions, " (max_position_embeddings)"));
}

void AddWeights(const JobSpec& spec, const DataFacts& data,
                Warnings* warnings) {
  if (spec.model.weights.empty() || spec.model.is_video() ||
      !spec.model.name.empty()) {
    return;
  }
  const auto file = data::SafetensorsFileOf(spec.model.weights);
  if (!file.ok()) return;
  const auto header = data::ReadSafetensorsHeader(*file);
  if (!header.ok()) return;
  AddTokenizer(spec, *header, warnings);
  AddTiedHead(*header, warnings);
  AddLength(*file, data, warnings);
}

}  // namespace

std::vector<std::string> JobWarnings(const JobSpec& spec,
                                     const DataFacts& data) {
  Warnings warnings;
  AddFewSamples(spec, data, &warnings);
  AddFewEvaluated(spec, data, &warnings);
  AddWeights(spec, data, &warnings);
  if (warnings.size() > kMaxWarnings) warnings.resize(kMaxWarnings);
  for (std::string& warning : warnings) {
    warning = std::string(Utf8Prefix(warning, kMaxWarningBytes));
    std::replace(warning.begin(), warning.end(), '\n', ' ');
  }
  return warnings;
}

}  // namespace evenstep::jobspec
