#include "worker/trainer/profile/engine_costs.h"

#include <algorithm>

#include "base/log.h"
#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

MeasureOptions ToMeasureOptions(const TrainerSetup& setup) {
  const jobspec::JobSpec& spec = setup.spec;
  MeasureOptions options;
  options.model = jobspec::ToModelShape(spec.model);
  options.vocab = spec.model.vocab;
  options.tokens_per_rank = spec.memory.tokens_per_rank;
  options.recompute_layers = jobspec::ToRecomputeLayers(spec.memory);
  if (spec.model.is_video()) {
    options.patch_values = PatchValues(spec.model);
    return options;
  }
  // The trainer's own models take longer documents than the job has.
  if (!spec.model.name.empty()) {
    options.long_tokens = std::min(options.long_tokens, spec.data.max_length);
  }
  if (setup.device.is_cpu()) return options;
  // In small micro-batches a device waits for the host: their times say
  // nothing about full ones. A document is no longer than the job's are.
  const int64_t longest =
      std::min(options.tokens_per_rank, spec.data.max_length);
  options.long_tokens = longest;
  options.short_tokens = longest;
  options.tiny_tokens = longest;
  return options;
}

}  // namespace

MeasuredParts PartsToMeasure(const Engine& engine) {
  return {engine.model.get(), engine.runner.get(), engine.groups,
          engine.sharded_over};
}

absl::StatusOr<planner::TimeModel> MeasureEngineCosts(const TrainerSetup& setup,
                                                      const Engine& engine) {
  const MeasuredParts parts = PartsToMeasure(engine);
  planner::TimeModel costs;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("measuring costs", [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(costs,
                              MeasureCosts(ToMeasureOptions(setup), parts));
    return absl::OkStatus();
  }));
  planner::TimeModel plannable =
      planner::PlannableCosts(costs, jobspec::ToModelShape(setup.spec.model));
  if (plannable != costs) {
    Log(LogLevel::kWarning, "measured_costs_limited",
        {{"measured", wire::ToProto(costs).ShortDebugString()}});
  }
  return plannable;
}

}  // namespace evenstep::trainer
