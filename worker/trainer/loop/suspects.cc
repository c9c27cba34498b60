#include "worker/trainer/loop/suspects.h"

#include <algorithm>

#include "absl/types/span.h"
#include "base/log.h"

namespace evenstep::trainer {

std::vector<int64_t> SuspectSamples(const wire::StepPlan& plan,
                                    const StepResult& result,
                                    Communicator& world) {
  std::vector<int64_t> not_finite(plan.micro_batches.size(), 0);
  for (const MicroBatchResult& micro_batch : result.micro_batches) {
    not_finite[micro_batch.index] = micro_batch.not_finite;
  }
  const absl::Status status = world.AllReduceSum(absl::MakeSpan(not_finite));
  if (!status.ok()) {
    Log(LogLevel::kWarning, "suspects_not_shared", {{"status", status}});
  }
  const bool known = std::any_of(not_finite.begin(), not_finite.end(),
                                 [](int64_t count) { return count > 0; });
  std::vector<int64_t> suspects;
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    if (known && not_finite[i] == 0) continue;
    const std::vector<int64_t>& ids = plan.micro_batches[i].sample_ids;
    suspects.insert(suspects.end(), ids.begin(), ids.end());
  }
  return suspects;
}

}  // namespace evenstep::trainer
