#include "jobspec/job_warnings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "data/safetensors.h"
#include "data/sample_rules.h"
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

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.3g MB", static_cast<double>(bytes) / 1e6);
}

void AddUnread(const data::UnreadFiles& unread, Warnings* warnings) {
  if (unread.bytes <= unread.bytes_read) return;
  const std::string files = Counted(unread.num_files, "file");
  warnings->push_back(absl::StrCat(
      "most of the data is not read: ", files, " of ", Megabytes(unread.bytes),
      unread.num_files == 1 ? " (" : ", the largest ", unread.largest,
      unread.num_files == 1 ? ")" : "", ", beside ",
      Megabytes(unread.bytes_read),
      " that are read; `evenstep data inspect --list-bad` says why"));
}

void AddTooLong(const JobSpec& spec, const DataFacts& data,
                Warnings* warnings) {
  const int64_t all = data.total_tokens + data.tokens_left_out;
  if (data.tokens_left_out * 2 <= all) return;
  const bool is_cut = spec.data.on_too_long == data::OnTooLong::kTruncate;
  warnings->push_back(absl::StrFormat(
      "%.3g%% of the tokens (%d of %d) are %s; raise data.max_length (%d) or "
      "split the documents%s",
      100 * static_cast<double>(data.tokens_left_out) /
          static_cast<double>(all),
      data.tokens_left_out, all,
      is_cut ? "cut off, from samples longer than data.max_length"
             : "skipped, in samples longer than data.max_length",
      spec.data.max_length,
      data.num_long_files > 0 ? data::HowToSplit(spec.data.max_length) : ""));
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

void AddTrainedOn(const DataFacts& data, Warnings* warnings) {
  if (data.num_evaluated_trained == 0) return;
  warnings->push_back(absl::StrCat(
      data.num_evaluated_trained, " of ",
      Counted(data.num_evaluated, "evaluation document"),
      data.num_evaluated_trained == 1 ? " is a training document"
                                      : " are training documents",
      " too, by their content: their loss says nothing about unseen text; "
      "evaluation.share holds documents out of the training data"));
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
  AddUnread(data.unread, &warnings);
  AddTooLong(spec, data, &warnings);
  AddFewEvaluated(spec, data, &warnings);
  AddTrainedOn(data, &warnings);
  AddWeights(spec, data, &warnings);
  if (warnings.size() > kMaxWarnings) warnings.resize(kMaxWarnings);
  for (std::string& warning : warnings) {
    warning = std::string(Utf8Prefix(warning, kMaxWarningBytes));
    std::replace(warning.begin(), warning.end(), '\n', ' ');
  }
  return warnings;
}

}  // namespace evenstep::jobspec
