#include "worker/trainer/job/plan_needs.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {

absl::Status OpenGroups(GroupTree& groups, const wire::StepPlan& plan) {
  std::vector<RankBlock> blocks;
  for (const wire::PlannedMicroBatch& micro_batch : plan.micro_batches) {
    blocks.push_back({micro_batch.first_rank, micro_batch.degree});
  }
  EVENSTEP_ASSIGN_OR_RETURN(const int opened, groups.Prepare(blocks));
  return opened == 0 ? absl::OkStatus() : groups.world().Barrier();
}

SampleReader ReaderOf(const SampleMap& samples) {
  return [&samples](int64_t id) -> absl::StatusOr<data::SampleTokens> {
    const auto it = samples.find(id);
    if (it != samples.end()) return it->second;
    return absl::InternalError(absl::StrCat("sample ", id, " was not read"));
  };
}

}  // namespace evenstep::trainer
