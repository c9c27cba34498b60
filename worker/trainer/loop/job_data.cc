#include "worker/trainer/loop/job_data.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "data/held_out.h"
#include "worker/trainer/loop/failure.h"

namespace evenstep::trainer {
namespace {

absl::StatusOr<std::unique_ptr<data::Dataset>> Open(
    const data::DatasetOptions& options, int64_t model_vocab) {
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
absl::StatusOr<data::HeldOutSplit> OpenBoth(const jobspec::JobSpec& spec) {
  EVENSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<data::Dataset> dataset,
      Open(jobspec::ToDatasetOptions(spec), spec.model.vocab));
  if (spec.evaluation.source.empty()) {
    return data::SplitHeldOut(std::move(dataset), spec.evaluation.share,
                              spec.seed);
  }
  data::HeldOutSplit both;
  both.training = std::move(dataset);
  EVENSTEP_ASSIGN_OR_RETURN(
      both.held_out,
      Open(jobspec::ToEvaluationOptions(spec), spec.model.vocab));
  return both;
}

// One key of both, so that ranks compare both.
uint64_t KeyOf(const data::Dataset& training, const data::Dataset& held_out) {
  Fnv1a64 key;
  key.AddInt(static_cast<int64_t>(training.summary().content_key));
  key.AddInt(static_cast<int64_t>(held_out.summary().content_key));
  return key.value();
}

// Of a source for evaluation alone.
void CountLeftOut(const data::DatasetSummary& held_out,
                  evenstep::v1::DataSummary* summary) {
  summary->set_evaluation_too_long(held_out.num_too_long);
  summary->set_evaluation_bad(held_out.num_bad);
  summary->set_evaluation_truncated(held_out.num_truncated);
}

absl::StatusOr<JobData> OpenData(const TrainerSetup& setup) {
  EVENSTEP_ASSIGN_OR_RETURN(data::HeldOutSplit both, OpenBoth(setup.spec));
  const uint64_t key = both.held_out == nullptr
                           ? both.training->summary().content_key
                           : KeyOf(*both.training, *both.held_out);
  JobData data{TrainingData(std::move(both.training), setup), std::nullopt, {}};
  data.summary = data.training.Summary();
  data.summary.set_content_key(key);
  if (both.held_out == nullptr) return data;
  if (!setup.spec.evaluation.source.empty()) {
    CountLeftOut(both.held_out->summary(), &data.summary);
  }
  data.evaluation.emplace(std::move(both.held_out), setup);
  if (data.evaluation->samples().empty()) {
    return absl::DataLossError(
        "no token of the held-out samples has a loss: there is nothing to "
        "evaluate");
  }
  data.summary.set_evaluation_samples(
      static_cast<int64_t>(data.evaluation->samples().size()));
  data.summary.set_evaluation_tokens(data.evaluation->num_tokens());
  data.summary.set_evaluation_untrained(data.evaluation->num_untrained());
  return data;
}

}  // namespace

absl::StatusOr<JobData> OpenJobData(const TrainerSetup& setup) {
  auto data = OpenData(setup);
  if (data.ok()) return data;
  return WithReason(data.status(), FailureReason::kDataError, kNoStep);
}

}  // namespace evenstep::trainer
