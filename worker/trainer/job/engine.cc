#include "worker/trainer/job/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "jobspec/weights_model.h"
#include "planner/costs/cost_limits.h"
#include "wire/job_spec_proto.h"
#include "worker/trainer/job/load_weights.h"
#include "worker/trainer/job/model_config.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"
#include "worker/trainer/profile/measure_clip_costs.h"

namespace evenstep::trainer {
namespace {

at::ScalarType ToScalarType(jobspec::Precision precision) {
  switch (precision) {
    case jobspec::Precision::kFloat32:
      return at::kFloat;
    case jobspec::Precision::kBFloat16:
      return at::kBFloat16;
    case jobspec::Precision::kFloat64:
      return at::kDouble;
  }
  return at::kFloat;
}

// What is not of the model alone.
template <typename Config>
Config WithSetup(Config config, const TrainerSetup& setup) {
  config.seed = setup.spec.seed;
  config.dtype = ToScalarType(setup.spec.precision);
  config.device = setup.device;
  return config;
}

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const TrainerSetup& setup) {
  const jobspec::ModelSpec& spec = setup.spec.model;
  const std::string& name = spec.name;
  if (!name.empty()) {
    return MakeNamedModel(
        setup.models == nullptr ? NamedModels() : *setup.models, name,
        WithSetup(ToModelRequest(spec, setup.spec.data.max_length), setup));
  }
  if (!spec.is_video()) {
    return MakeDecoder(WithSetup(ToDecoderConfig(spec), setup));
  }
  EVENSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            MakeDiffusionTransformer(WithSetup(
                                ToDiffusionTransformerConfig(spec), setup)));
  return model;
}

AdamWOptions ToAdamWOptions(const jobspec::JobSpec& spec) {
  AdamWOptions options;
  options.schedule.peak = spec.optimizer.lr;
  options.schedule.warmup_steps = spec.optimizer.warmup;
  options.schedule.total_steps = spec.steps;
  options.weight_decay = spec.optimizer.weight_decay;
  options.clip = spec.optimizer.clip;
  return options;
}

std::string DescribeModel(const jobspec::ModelSpec& model) {
  if (!model.name.empty()) {
    return absl::StrCat("the model ", model.name, " of ", model.layers,
                        " layers, width ", model.width, ", ", model.heads,
                        " heads");
  }
  if (model.is_video()) {
    return absl::StrCat("a video model of ", model.layers, " layers, width ",
                        model.width, ", ", model.heads, " heads, patches of ",
                        model.patch, " x ", model.patch, " x ", model.channels);
  }
  return absl::StrCat("a model of ", model.layers, " layers, width ",
                      model.width, ", ", model.heads, " heads, vocabulary ",
                      model.vocab);
}

// One rank has nobody to split with.
Sharding ShardingOf(const TrainerSetup& setup) {
  const bool split =
      setup.spec.optimizer.sharding == jobspec::OptimizerSharding::kZero1;
  return split && setup.world > 1 ? Sharding::kZero1 : Sharding::kNone;
}

// The world if optimizer states are split over it.
Communicator* ShardedOver(const TrainerSetup& setup, GroupTree* groups) {
  return ShardingOf(setup) == Sharding::kZero1 ? &groups->world() : nullptr;
}

StepRunnerOptions ToRunnerOptions(const TrainerSetup& setup) {
  const jobspec::JobSpec& spec = setup.spec;
  StepRunnerOptions options;
  options.sharding = ShardingOf(setup);
  options.irregular_heads = spec.model.expand_kv_heads
                                ? IrregularHeads::kExpand
                                : IrregularHeads::kRefuse;
  options.seed = spec.seed;
  return options;
}

MeasureOptions ToMeasureOptions(const TrainerSetup& setup) {
  const jobspec::JobSpec& spec = setup.spec;
  MeasureOptions options;
  options.model = jobspec::ToModelShape(spec.model);
  options.vocab = spec.model.vocab;
  options.tokens_per_rank = spec.memory.tokens_per_rank;
  options.recompute_layers = spec.memory.recompute_layers;
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

ClipMeasureOptions ToClipMeasureOptions(const jobspec::JobSpec& spec) {
  ClipMeasureOptions options;
  options.model = jobspec::ToModelShape(spec.model);
  options.patch_values = PatchValues(spec.model);
  options.tokens_per_rank = spec.memory.tokens_per_rank;
  options.recompute_layers = jobspec::ToRecomputeLayers(spec.memory);
  return options;
}

// Before the optimizer copies what it needs of them.
absl::Status BeginWithGivenWeights(const jobspec::ModelSpec& spec,
                                   const Model& model) {
  if (spec.weights.empty()) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(jobspec::CheckModelOfWeights(spec.weights, spec));
  EVENSTEP_RETURN_IF_ERROR(LoadWeights(spec.weights, model.parameters()));
  Log(LogLevel::kInfo, "weights_loaded", {{"path", spec.weights}});
  return absl::OkStatus();
}

void PlantNotFinite(Engine* engine) {
  auto planted = std::make_unique<NotFiniteModel>(std::move(engine->model));
  engine->planted = planted.get();
  engine->model = std::move(planted);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupTree>> BuildGroups(
    const TrainerSetup& setup, CommunicatorFactory& factory) {
  auto groups = GroupTree::Build(factory, setup.generation, setup.rank,
                                 setup.world, setup.spec.groups_per_rank);
  if (!groups.ok()) {
    return WithReason(groups.status(), FailureReason::kStartFailed, kNoStep);
  }
  Log(LogLevel::kInfo, "groups_built",
      {{"groups", (*groups)->num_groups()},
       {"seconds", absl::ToDoubleSeconds((*groups)->creation_time())}});
  return groups;
}

absl::StatusOr<Engine> MakeEngine(const TrainerSetup& setup,
                                  const FaultPlan& faults, GroupTree* groups) {
  Engine engine;
  engine.groups = groups;
  const absl::Status made =
      CatchTorch(DescribeModel(setup.spec.model), [&]() -> absl::Status {
        EVENSTEP_ASSIGN_OR_RETURN(engine.model, MakeModel(setup));
        EVENSTEP_RETURN_IF_ERROR(
            BeginWithGivenWeights(setup.spec.model, *engine.model));
        if (!faults.empty()) PlantNotFinite(&engine);
        engine.runner = std::make_unique<StepRunner>(
            engine.model.get(), GroupsOf(groups), ToRunnerOptions(setup));
        engine.optimizer = std::make_unique<AdamW>(engine.model->parameters(),
                                                   ToAdamWOptions(setup.spec),
                                                   ShardedOver(setup, groups));
        return absl::OkStatus();
      });
  if (made.ok()) return engine;
  return WithReason(made, FailureReason::kStartFailed, kNoStep);
}

MeasuredParts PartsToMeasure(const TrainerSetup& setup, const Engine& engine) {
  return {engine.model.get(), engine.runner.get(), engine.groups,
          ShardedOver(setup, engine.groups)};
}

absl::StatusOr<planner::TimeModel> MeasureEngineCosts(const TrainerSetup& setup,
                                                      const Engine& engine) {
  const MeasuredParts parts = PartsToMeasure(setup, engine);
  planner::TimeModel costs;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("measuring costs", [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(
        costs, setup.spec.model.is_video()
                   ? MeasureClipCosts(ToClipMeasureOptions(setup.spec), parts)
                   : MeasureCosts(ToMeasureOptions(setup), parts));
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
