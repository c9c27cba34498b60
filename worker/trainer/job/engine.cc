#include "worker/trainer/job/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "jobspec/weights_model.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/job/weights.h"
#include "worker/trainer/link/failure.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"
#include "worker/trainer/model/named_models.h"

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
        engine.sharded_over = ShardedOver(setup, groups);
        engine.optimizer = std::make_unique<AdamW>(engine.model->parameters(),
                                                   ToAdamWOptions(setup.spec),
                                                   engine.sharded_over);
        return absl::OkStatus();
      });
  if (made.ok()) return engine;
  return WithReason(made, FailureReason::kStartFailed, kNoStep);
}

}  // namespace evenstep::trainer
