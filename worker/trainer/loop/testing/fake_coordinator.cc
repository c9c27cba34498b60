#include "worker/trainer/loop/testing/fake_coordinator.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace evenstep::trainer {
namespace {

wire::PlannedMicroBatch Pack(int first_rank, int degree,
                             const std::vector<ReportedSample>& samples) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.first_rank = first_rank;
  micro_batch.degree = degree;
  for (const ReportedSample& sample : samples) {
    micro_batch.sample_ids.push_back(sample.id);
    micro_batch.lengths.push_back(sample.length);
  }
  return micro_batch;
}

}  // namespace

std::vector<wire::PlannedMicroBatch> DealOut(
    const std::vector<ReportedSample>& samples, int world) {
  std::vector<wire::PlannedMicroBatch> plan;
  for (size_t i = 0; i < samples.size(); ++i) {
    plan.push_back(Pack(static_cast<int>(i) % world, 1, {samples[i]}));
  }
  return plan;
}

std::vector<wire::PlannedMicroBatch> OneGroup(
    const std::vector<ReportedSample>& samples, int world) {
  return {Pack(0, world, samples)};
}

std::vector<wire::PlannedMicroBatch> LongestTogether(
    const std::vector<ReportedSample>& samples, int world) {
  std::vector<ReportedSample> rest = samples;
  const auto longest = std::max_element(
      rest.begin(), rest.end(),
      [](const auto& a, const auto& b) { return a.length < b.length; });
  const wire::PlannedMicroBatch first = Pack(0, world, {*longest});
  rest.erase(longest);
  if (rest.empty()) return {first};
  return {first, Pack(0, 1, rest)};
}

FakeCoordinator::FakeCoordinator(int64_t generation, int world, Layout layout,
                                 Deliver deliver)
    : generation_(generation),
      world_(world),
      layout_(std::move(layout)),
      deliver_(std::move(deliver)),
      messages_(world) {}

void FakeCoordinator::OnMessage(int rank, const v1::ToAgent& message) {
  std::optional<wire::StepPlan> plan;
  {
    absl::MutexLock lock(&mutex_);
    messages_[rank].push_back(message);
    if (!message.has_lengths()) return;
    const evenstep::v1::LengthReport& report = message.lengths();
    Collected& collected = steps_[report.step()];
    for (int i = 0; i < report.sample_ids_size(); ++i) {
      collected.lengths[report.sample_ids(i)] = report.lengths(i);
      collected.trained_tokens += report.trained_tokens(i);
    }
    if (++collected.num_reports < world_) return;
    plan = MakePlan(report.step(), collected);
  }
  for (int to = 0; to < world_; ++to) deliver_(to, *plan);
}

wire::StepPlan FakeCoordinator::MakePlan(int64_t step,
                                         const Collected& collected) const {
  std::vector<ReportedSample> samples;
  for (const auto& [id, length] : collected.lengths) {
    samples.push_back({id, length});
  }
  wire::StepPlan plan;
  plan.generation = generation_;
  plan.step = step;
  plan.world = world_;
  plan.micro_batches = layout_(samples, world_);
  plan.trained_tokens = collected.trained_tokens;
  plan.policy = "test";
  plan.digest = wire::StepPlanDigest(plan);
  return plan;
}

std::vector<v1::ToAgent> FakeCoordinator::messages(int rank) const {
  absl::MutexLock lock(&mutex_);
  return messages_[rank];
}

std::vector<double> FakeCoordinator::Losses(int rank) const {
  std::vector<double> losses;
  for (const v1::ToAgent& message : messages(rank)) {
    if (message.has_step()) losses.push_back(message.step().loss());
  }
  return losses;
}

}  // namespace evenstep::trainer
