#include "worker/trainer/loop/evaluation_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/sampler.h"
#include "worker/trainer/loop/read_document.h"
#include "worker/trainer/model/sample_random.h"

namespace evenstep::trainer {
namespace {

// Steps have ids from 0 on, fewer than this.
constexpr int64_t kFirstId = int64_t{1} << 61;

}  // namespace

EvaluationData::EvaluationData(std::unique_ptr<data::Dataset> dataset,
                               const TrainerSetup& setup)
    : dataset_(std::move(dataset)),
      seed_(setup.spec.seed),
      given_frames_(setup.spec.data.given_frames),
      vocab_(setup.spec.model.vocab),
      rank_(setup.rank) {
  const int64_t num_documents = dataset_->summary().num_samples;
  const int64_t wanted = setup.spec.evaluation.samples;
  const auto most = static_cast<size_t>(wanted == 0 ? num_documents : wanted);
  // The first ids of a permutation: no document comes twice.
  const data::Sampler order(seed_, num_documents, /*samples_per_step=*/1);
  for (int64_t i = 0; i < num_documents && samples_.size() < most; ++i) {
    planner::Sample sample = SampleOf(order.Document(i));
    if (sample.trained_tokens > 0) {
      samples_.push_back(sample);
    } else {
      ++num_untrained_;
    }
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

int64_t EvaluationData::num_tokens() const {
  int64_t tokens = 0;
  for (const planner::Sample& sample : samples_) tokens += sample.length;
  return tokens;
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
