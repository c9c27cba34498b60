#include "worker/trainer/job/evaluation_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "jobspec/job_spec.h"
#include "jobspec/plan_request.h"
#include "planner/checked_plan.h"
#include "planner/costs/cost_limits.h"
#include "planner/limits.h"
#include "planner/planner.h"
#include "worker/trainer/job/training_data.h"
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

namespace {

// With fewer, one long sample leaves the others' ranks idle.
constexpr int64_t kSamplesPerRank = 16;

// At most what a step may hold.
int64_t SamplesPerPlan(const TrainerSetup& setup) {
  const int64_t most =
      std::min(planner::kMaxSamples,
               planner::kMaxTotalTokens / setup.spec.data.max_length);
  return std::max(setup.spec.batch_samples,
                  std::min(kSamplesPerRank * setup.world, most));
}

planner::PlanRequest RequestOf(const TrainerSetup& setup,
                               const planner::TimeModel& costs) {
  planner::PlanRequest request = jobspec::ToPlanRequest(setup.spec);
  request.time = costs;
  request.cluster.ranks_per_node = setup.ranks_per_node;
  if (setup.ranks_per_node.empty()) {
    request.cluster.ranks_per_node = {setup.world};
  }
  return request;
}

}  // namespace

absl::StatusOr<std::vector<wire::StepPlan>> PlanEvaluation(
    const TrainerSetup& setup, const planner::TimeModel& costs,
    const std::vector<planner::Sample>& samples) {
  const auto per_plan = static_cast<size_t>(SamplesPerPlan(setup));
  std::vector<wire::StepPlan> plans;
  for (size_t begin = 0; begin < samples.size(); begin += per_plan) {
    const size_t end = std::min(samples.size(), begin + per_plan);
    planner::PlanRequest request = RequestOf(setup, costs);
    request.samples.assign(samples.begin() + begin, samples.begin() + end);
    EVENSTEP_ASSIGN_OR_RETURN(
        const planner::CheckedPlan checked,
        planner::MakeCheckedPlan(request,
                                 {{planner::NominalCosts(request.model), {}}}));
    plans.push_back(wire::MakeStepPlan(
        checked.request, checked.plan, setup.generation,
        static_cast<int64_t>(plans.size()),
        planner::PolicyName(checked.request.options.policy)));
  }
  return plans;
}

uint64_t DigestOf(const std::vector<wire::StepPlan>& plans) {
  Fnv1a64 digest;
  for (const wire::StepPlan& plan : plans) {
    digest.AddInt(static_cast<int64_t>(plan.digest));
  }
  return digest.value();
}

}  // namespace evenstep::trainer
