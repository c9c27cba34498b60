#include "worker/trainer/loop/suspects.h"

#include <algorithm>

#include "absl/types/span.h"
#include "base/log.h"

namespace evenstep::trainer {
namespace {

// Samples of the micro-batches whose flag is set.
std::vector<int64_t> SamplesOf(const wire::StepPlan& plan,
                               absl::Span<const int64_t> flags) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    if (flags[i] == 0) continue;
    const std::vector<int64_t>& more = plan.micro_batches[i].sample_ids;
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

}  // namespace

std::vector<int64_t> SuspectSamples(const wire::StepPlan& plan,
                                    const StepResult& result,
                                    Communicator& world) {
  // By micro-batch: ranks with a bad loss, then ranks with a bad gradient only.
  const size_t count = plan.micro_batches.size();
  std::vector<int64_t> flags(2 * count, 0);
  for (const MicroBatchResult& micro_batch : result.micro_batches) {
    flags[micro_batch.index] = micro_batch.loss_not_finite ? 1 : 0;
    flags[count + micro_batch.index] = micro_batch.gradient_not_finite ? 1 : 0;
  }
  const absl::Status shared = world.AllReduceSum(absl::MakeSpan(flags));
  if (!shared.ok()) {
    Log(LogLevel::kWarning, "suspects_not_shared", {{"status", shared}});
  }
  const absl::Span<const int64_t> all = flags;
  for (const auto& part : {all.first(count), all.last(count)}) {
    std::vector<int64_t> suspects = SamplesOf(plan, part);
    if (!suspects.empty()) return suspects;
  }
  return shared.ok() ? AllSamples(plan) : std::vector<int64_t>();
}

std::vector<int64_t> AllSamples(const wire::StepPlan& plan) {
  return SamplesOf(plan, std::vector<int64_t>(plan.micro_batches.size(), 1));
}

}  // namespace evenstep::trainer
