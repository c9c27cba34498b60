#include "jobspec/open_data.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "jobspec/job_warnings.h"

namespace evenstep::jobspec {
namespace {

absl::StatusOr<std::unique_ptr<data::Dataset>> Open(
    data::DatasetOptions options, int64_t model_vocab,
    const data::IndexProgressFunction& progress) {
  options.progress = progress;
  EVENSTEP_ASSIGN_OR_RETURN(std::unique_ptr<data::Dataset> dataset,
                            data::OpenDataset(options));
  if (dataset->summary().num_samples < 1) {
    return absl::DataLossError(absl::StrCat(options.source, " has no sample"));
  }
  const int64_t vocab = dataset->Vocab();
  if (vocab <= model_vocab) return dataset;
  return absl::DataLossError(absl::StrCat(
      options.source, " has a vocabulary of ", vocab, ", the model one of ",
      model_vocab, "; set model.vocab to ", vocab, " or more"));
}

// Both parts; the second is null if the job has no evaluation.
absl::StatusOr<data::HeldOutSplit> OpenBoth(
    const JobSpec& spec, const data::IndexProgressFunction& progress) {
  EVENSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<data::Dataset> dataset,
      Open(ToDatasetOptions(spec), spec.model.vocab, progress));
  if (spec.evaluation.source.empty()) {
    return data::SplitHeldOut(std::move(dataset), spec.evaluation.share,
                              spec.seed);
  }
  data::HeldOutSplit both;
  both.training = std::move(dataset);
  EVENSTEP_ASSIGN_OR_RETURN(both.held_out, Open(ToEvaluationOptions(spec),
                                                spec.model.vocab, progress));
  return both;
}

// One key of both, so that ranks compare both.
uint64_t KeyOf(const data::Dataset& training, const data::Dataset& held_out) {
  Fnv1a64 key;
  key.AddInt(static_cast<int64_t>(training.summary().content_key));
  key.AddInt(static_cast<int64_t>(held_out.summary().content_key));
  return key.value();
}

std::vector<std::string> WarningsOf(const JobSpec& spec,
                                    const OpenedData& data) {
  const data::DatasetSummary& training = data.training->summary();
  const std::vector<int64_t>& evaluated = data.evaluated.documents;
  DataFacts facts;
  facts.num_samples = training.num_samples;
  facts.longest = training.longest;
  facts.total_tokens = training.total_tokens;
  facts.tokens_left_out = training.tokens_left_out;
  facts.num_long_files = training.num_long_files;
  facts.unread = training.unread;
  facts.num_evaluated = static_cast<int64_t>(evaluated.size());
  // A share may hold out copies of what is trained on: they are the data's own.
  if (!spec.evaluation.source.empty()) {
    facts.num_evaluated_trained =
        data::CountTrainedOn(*data.training, *data.held_out, evaluated);
  }
  return JobWarnings(spec, facts);
}

}  // namespace

absl::StatusOr<OpenedData> OpenData(
    const JobSpec& spec, const data::IndexProgressFunction& progress) {
  EVENSTEP_ASSIGN_OR_RETURN(data::HeldOutSplit both, OpenBoth(spec, progress));
  OpenedData data;
  data.training = std::move(both.training);
  data.held_out = std::move(both.held_out);
  data.content_key = data.training->summary().content_key;
  if (data.held_out == nullptr) {
    data.warnings = WarningsOf(spec, data);
    return data;
  }
  data.content_key = KeyOf(*data.training, *data.held_out);
  data.evaluated =
      data::ChooseEvaluated(*data.held_out, spec.evaluation.samples, spec.seed);
  if (!data.evaluated.documents.empty()) {
    data.warnings = WarningsOf(spec, data);
    return data;
  }
  return absl::DataLossError(
      "no token of the held-out samples has a loss: there is nothing to "
      "evaluate");
}

}  // namespace evenstep::jobspec
