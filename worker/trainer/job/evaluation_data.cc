#include "worker/trainer/job/evaluation_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/job/read_document.h"
#include "worker/trainer/model/sample_random.h"

namespace evenstep::trainer {
namespace {

// Steps have ids from 0 on, fewer than this.
constexpr int64_t kFirstId = int64_t{1} << 61;

}  // namespace

EvaluationData::EvaluationData(std::unique_ptr<data::Dataset> dataset,
                               const std::vector<int64_t>& documents,
                               const TrainerSetup& setup)
    : dataset_(std::move(dataset)),
      seed_(setup.spec.seed),
      given_frames_(setup.spec.data.given_frames),
      vocab_(setup.spec.model.vocab),
      rank_(setup.rank) {
  for (const int64_t document : documents) {
    samples_.push_back(SampleOf(document));
  }
}

planner::Sample EvaluationData::SampleOf(int64_t document) const {
  const data::ClipShape shape = dataset_->Shape(document);
  planner::Sample sample;
  sample.id = kFirstId + document;
  sample.length = dataset_->Length(document);
  sample.trained_tokens = dataset_->TrainedTokens(document) -
                          GivenFrames(document) * shape.patches();
  sample.frames = shape.frames;
  sample.height = shape.height;
  sample.width = shape.width;
  return sample;
}

int64_t EvaluationData::GivenFrames(int64_t document) const {
  return SampleRandom(seed_, kFirstId + document)
      .GivenFrames(dataset_->Shape(document).frames, given_frames_);
}

absl::StatusOr<SampleMap> EvaluationData::Load(const wire::StepPlan& plan,
                                               int64_t step) const {
  SampleMap samples;
  for (const wire::PlannedMicroBatch& micro_batch : plan.micro_batches) {
    if (!micro_batch.Contains(rank_)) continue;
    for (size_t i = 0; i < micro_batch.sample_ids.size(); ++i) {
      const int64_t document = micro_batch.sample_ids[i] - kFirstId;
      EVENSTEP_ASSIGN_OR_RETURN(
          data::SampleTokens sample,
          ReadDocument(
              *dataset_,
              {document, micro_batch.lengths[i], vocab_,
               absl::StrCat("the held-out sample ", dataset_->Name(document))},
              step));
      sample.given_frames = GivenFrames(document);
      samples.emplace(micro_batch.sample_ids[i], std::move(sample));
    }
  }
  return samples;
}

}  // namespace evenstep::trainer
