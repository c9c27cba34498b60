#include "worker/trainer/job/training_data.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "wire/step_plan.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/model/sample_random.h"

namespace evenstep::trainer {
namespace {

std::vector<int64_t> PlannedIds(const wire::StepPlan& plan) {
  std::vector<int64_t> ids;
  for (const wire::PlannedMicroBatch& micro_batch : plan.micro_batches) {
    ids.insert(ids.end(), micro_batch.sample_ids.begin(),
               micro_batch.sample_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

TrainingData::TrainingData(std::unique_ptr<data::Dataset> dataset,
                           const TrainerSetup& setup)
    : dataset_(std::move(dataset)),
      sampler_(setup.spec.seed, dataset_->summary().num_samples,
               setup.spec.batch_samples),
      vocab_(setup.spec.model.vocab),
      seed_(setup.spec.seed),
      given_frames_(setup.spec.data.given_frames),
      generation_(setup.generation),
      rank_(setup.rank),
      world_(setup.world) {}

evenstep::v1::LengthReport TrainingData::Lengths(int64_t step) const {
  evenstep::v1::LengthReport report;
  report.set_generation(generation_);
  report.set_step(step);
  report.set_rank(rank_);
  for (int64_t id : sampler_.ReportShare(step, rank_, world_)) {
    const int64_t document = sampler_.Document(id);
    report.add_sample_ids(id);
    report.add_lengths(dataset_->Length(document));
    const data::ClipShape shape = dataset_->Shape(document);
    report.add_trained_tokens(dataset_->TrainedTokens(document) -
                              GivenFrames(id) * shape.patches());
    if (shape.frames > 0) *report.add_shapes() = wire::ToProto(shape);
  }
  return report;
}

int64_t TrainingData::GivenFrames(int64_t sample_id) const {
  const int64_t frames = dataset_->Shape(sampler_.Document(sample_id)).frames;
  return SampleRandom(seed_, sample_id).GivenFrames(frames, given_frames_);
}

absl::StatusOr<SampleMap> TrainingData::Load(const wire::StepPlan& plan) const {
  EVENSTEP_RETURN_IF_ERROR(CheckSameSamples(plan));
  SampleMap samples;
  for (const wire::PlannedMicroBatch& micro_batch : plan.micro_batches) {
    if (!micro_batch.Contains(rank_)) continue;
    for (size_t i = 0; i < micro_batch.sample_ids.size(); ++i) {
      const int64_t id = micro_batch.sample_ids[i];
      EVENSTEP_ASSIGN_OR_RETURN(samples[id],
                                Read(plan.step, id, micro_batch.lengths[i]));
    }
  }
  return samples;
}

std::string TrainingData::Describe(int64_t sample_id) const {
  return absl::StrCat("sample ", sample_id, " (",
                      dataset_->Name(sampler_.Document(sample_id)), ")");
}

absl::Status TrainingData::CheckSameSamples(const wire::StepPlan& plan) const {
  const std::vector<int64_t> planned = PlannedIds(plan);
  const std::vector<int64_t> expected = sampler_.SampleIds(plan.step);
  if (planned == expected) return absl::OkStatus();
  return FailureError(
      FailureReason::kPlanMismatch, plan.step,
      absl::StrCat("the plan of step ", plan.step, " has ", planned.size(),
                   " samples that are not the step's ", expected.size(),
                   " samples from ", expected.front(), " on"));
}

absl::StatusOr<data::SampleTokens> TrainingData::Read(
    int64_t step, int64_t sample_id, int64_t planned_length) const {
  EVENSTEP_ASSIGN_OR_RETURN(
      data::SampleTokens sample,
      ReadDocument(*dataset_,
                   {sampler_.Document(sample_id), planned_length, vocab_,
                    Describe(sample_id)},
                   step));
  sample.given_frames = GivenFrames(sample_id);
  return sample;
}

absl::StatusOr<data::SampleTokens> ReadDocument(const data::Dataset& dataset,
                                                const DocumentWanted& wanted,
                                                int64_t step) {
  auto sample = dataset.Read(wanted.document);
  if (!sample.ok()) {
    return WithReason(sample.status(), FailureReason::kDataError, step);
  }
  const int64_t length = data::NumTokens(*sample);
  if (length != wanted.planned_length) {
    return FailureError(
        FailureReason::kDataError, step,
        absl::StrCat(wanted.name, " has ", length, " tokens, the plan says ",
                     wanted.planned_length));
  }
  const auto largest =
      std::max_element(sample->tokens.begin(), sample->tokens.end());
  if (largest == sample->tokens.end() || *largest < wanted.vocab) {
    return sample;
  }
  return FailureError(FailureReason::kDataError, step,
                      absl::StrCat(wanted.name, " has token ", *largest,
                                   ", model.vocab is ", wanted.vocab));
}

}  // namespace evenstep::trainer
