#include "wire/job_spec_proto.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/planner.h"
#include "wire/sp_mode_proto.h"

namespace evenstep::wire {
namespace {

absl::Status InField(absl::string_view field, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", status.message()));
}

// An empty name keeps the default.
template <typename Enum>
absl::Status FromName(absl::string_view field, const std::string& name,
                      absl::Status (*parse)(absl::string_view, Enum*),
                      Enum* value) {
  if (name.empty()) return absl::OkStatus();
  return InField(field, parse(name, value));
}

v1::ModelSpec ToProto(const jobspec::ModelSpec& model) {
  v1::ModelSpec proto;
  proto.set_layers(model.layers);
  proto.set_width(model.width);
  proto.set_heads(model.heads);
  proto.set_kv_heads(model.kv_heads);
  proto.set_vocab(model.vocab);
  proto.set_attention(std::string(jobspec::AttentionName(model.attention)));
  for (const planner::SpMode mode : model.sp_modes) {
    proto.add_sp_modes(SpModeToProto(mode));
  }
  proto.set_expand_kv_heads(model.expand_kv_heads);
  proto.set_kind(std::string(jobspec::ModelKindName(model.kind)));
  proto.set_channels(model.channels);
  proto.set_patch(model.patch);
  proto.set_max_switch_degree(model.max_switch_degree);
  proto.set_name(model.name);
  proto.set_weights(model.weights);
  proto.set_mlp_width(model.mlp_width);
  proto.set_rope_theta(model.rope_theta);
  proto.set_norm_epsilon(model.norm_epsilon);
  return proto;
}

absl::StatusOr<jobspec::ModelSpec> FromProto(const v1::ModelSpec& proto) {
  jobspec::ModelSpec model;
  model.layers = proto.layers();
  model.width = proto.width();
  model.heads = proto.heads();
  model.kv_heads = proto.kv_heads();
  model.vocab = proto.vocab();
  EVENSTEP_RETURN_IF_ERROR(FromName("model.attention", proto.attention(),
                                    jobspec::ParseAttention, &model.attention));
  for (const int mode : proto.sp_modes()) {
    const std::optional<planner::SpMode> known = SpModeFromProto(mode);
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.sp_modes: ", mode, " is unknown"));
    }
    model.sp_modes.push_back(*known);
  }
  model.expand_kv_heads = proto.expand_kv_heads();
  EVENSTEP_RETURN_IF_ERROR(FromName("model.kind", proto.kind(),
                                    jobspec::ParseModelKind, &model.kind));
  model.channels = proto.channels();
  if (proto.patch() != 0) model.patch = proto.patch();
  model.max_switch_degree = proto.max_switch_degree();
  model.name = proto.name();
  model.weights = proto.weights();
  model.mlp_width = proto.mlp_width();
  if (proto.rope_theta() != 0) model.rope_theta = proto.rope_theta();
  if (proto.norm_epsilon() != 0) model.norm_epsilon = proto.norm_epsilon();
  return model;
}

v1::DataSpec ToProto(const jobspec::DataSpec& data) {
  v1::DataSpec proto;
  proto.set_source(data.source);
  proto.set_tokenizer(data.tokenizer);
  proto.set_max_length(data.max_length);
  proto.set_on_too_long(std::string(jobspec::OnTooLongName(data.on_too_long)));
  proto.set_on_bad_sample(
      std::string(jobspec::OnBadSampleName(data.on_bad_sample)));
  proto.set_given_frames(data.given_frames);
  return proto;
}

absl::StatusOr<jobspec::DataSpec> FromProto(const v1::DataSpec& proto) {
  jobspec::DataSpec data;
  data.source = proto.source();
  data.tokenizer = proto.tokenizer();
  data.max_length = proto.max_length();
  EVENSTEP_RETURN_IF_ERROR(
      InField("data.on_too_long",
              jobspec::ParseOnTooLong(proto.on_too_long(), &data.on_too_long)));
  EVENSTEP_RETURN_IF_ERROR(InField(
      "data.on_bad_sample",
      jobspec::ParseOnBadSample(proto.on_bad_sample(), &data.on_bad_sample)));
  data.given_frames = proto.given_frames();
  return data;
}

v1::EvaluationSpec ToProto(const jobspec::EvaluationSpec& evaluation) {
  v1::EvaluationSpec proto;
  proto.set_share(evaluation.share);
  proto.set_source(evaluation.source);
  proto.set_every(evaluation.every);
  proto.set_samples(evaluation.samples);
  return proto;
}

jobspec::EvaluationSpec FromProto(const v1::EvaluationSpec& proto) {
  jobspec::EvaluationSpec evaluation;
  evaluation.share = proto.share();
  evaluation.source = proto.source();
  evaluation.every = proto.every();
  evaluation.samples = proto.samples();
  return evaluation;
}

v1::OptimizerSpec ToProto(const jobspec::OptimizerSpec& optimizer) {
  v1::OptimizerSpec proto;
  proto.set_lr(optimizer.lr);
  proto.set_warmup(optimizer.warmup);
  proto.set_weight_decay(optimizer.weight_decay);
  proto.set_clip(optimizer.clip);
  proto.set_sharding(
      std::string(jobspec::OptimizerShardingName(optimizer.sharding)));
  return proto;
}

absl::StatusOr<jobspec::OptimizerSpec> FromProto(
    const v1::OptimizerSpec& proto) {
  jobspec::OptimizerSpec optimizer;
  optimizer.lr = proto.lr();
  optimizer.warmup = proto.warmup();
  optimizer.weight_decay = proto.weight_decay();
  optimizer.clip = proto.clip();
  EVENSTEP_RETURN_IF_ERROR(FromName("optimizer.sharding", proto.sharding(),
                                    jobspec::ParseOptimizerSharding,
                                    &optimizer.sharding));
  return optimizer;
}

v1::TimeoutSpec ToProto(const jobspec::TimeoutSpec& timeouts) {
  v1::TimeoutSpec proto;
  if (timeouts.collective.has_value()) {
    proto.set_collective_ms(absl::ToInt64Milliseconds(*timeouts.collective));
  }
  proto.set_start_ms(absl::ToInt64Milliseconds(timeouts.start));
  proto.set_stop_ms(absl::ToInt64Milliseconds(timeouts.stop));
  return proto;
}

// 0 keeps the default.
jobspec::TimeoutSpec FromProto(const v1::TimeoutSpec& proto) {
  jobspec::TimeoutSpec timeouts;
  if (proto.collective_ms() != 0) {
    timeouts.collective = absl::Milliseconds(proto.collective_ms());
  }
  if (proto.start_ms() != 0) {
    timeouts.start = absl::Milliseconds(proto.start_ms());
  }
  if (proto.stop_ms() != 0) timeouts.stop = absl::Milliseconds(proto.stop_ms());
  return timeouts;
}

v1::ProfileKey ToProto(const jobspec::ProfileKey& key) {
  v1::ProfileKey proto;
  proto.set_model(key.model);
  proto.set_device(key.device);
  proto.set_software(key.software);
  proto.set_precision(key.precision);
  return proto;
}

jobspec::ProfileKey FromProto(const v1::ProfileKey& proto) {
  return {proto.model(), proto.device(), proto.software(), proto.precision()};
}

}  // namespace

v1::JobSpec ToProto(const jobspec::JobSpec& spec) {
  v1::JobSpec proto;
  proto.set_name(spec.name);
  proto.set_kind(spec.kind);
  *proto.mutable_model() = ToProto(spec.model);
  *proto.mutable_data() = ToProto(spec.data);
  if (spec.evaluation.enabled()) {
    *proto.mutable_evaluation() = ToProto(spec.evaluation);
  }
  proto.mutable_batch()->set_samples(spec.batch_samples);
  proto.set_steps(spec.steps);
  proto.set_seed(spec.seed);
  *proto.mutable_optimizer() = ToProto(spec.optimizer);
  proto.set_precision(std::string(jobspec::PrecisionName(spec.precision)));
  proto.set_policy(std::string(planner::PolicyName(spec.policy)));
  proto.set_ranks(spec.ranks);
  proto.set_look_ahead(spec.look_ahead);
  proto.mutable_memory()->set_tokens_per_rank(spec.memory.tokens_per_rank);
  proto.mutable_memory()->set_recompute_layers(spec.memory.recompute_layers);
  proto.mutable_memory()->set_recompute(
      std::string(jobspec::RecomputeName(spec.memory.recompute)));
  proto.set_blocks(std::string(jobspec::BlockShapeName(spec.blocks)));
  proto.set_groups_per_rank(spec.groups_per_rank);
  proto.mutable_memory()->set_recompute_temporal_layers(
      spec.memory.recompute_temporal_layers);
  if (spec.costs.has_value()) *proto.mutable_costs() = ToProto(*spec.costs);
  *proto.mutable_timeouts() = ToProto(spec.timeouts);
  if (!spec.profile.empty()) *proto.mutable_profile() = ToProto(spec.profile);
  proto.set_keep_costs(!spec.refit);
  return proto;
}

absl::StatusOr<jobspec::JobSpec> FromProto(const v1::JobSpec& proto) {
  jobspec::JobSpec spec;
  spec.name = proto.name();
  spec.kind = proto.kind();
  EVENSTEP_ASSIGN_OR_RETURN(spec.model, FromProto(proto.model()));
  EVENSTEP_ASSIGN_OR_RETURN(spec.data, FromProto(proto.data()));
  spec.evaluation = FromProto(proto.evaluation());
  spec.batch_samples = proto.batch().samples();
  spec.steps = proto.steps();
  spec.seed = proto.seed();
  EVENSTEP_ASSIGN_OR_RETURN(spec.optimizer, FromProto(proto.optimizer()));
  EVENSTEP_RETURN_IF_ERROR(FromName("precision", proto.precision(),
                                    jobspec::ParsePrecision, &spec.precision));
  absl::StatusOr<planner::Policy> policy = planner::ParsePolicy(proto.policy());
  if (!policy.ok()) return InField("policy", policy.status());
  spec.policy = *policy;
  spec.ranks = proto.ranks();
  spec.look_ahead = proto.look_ahead();
  spec.memory.tokens_per_rank = proto.memory().tokens_per_rank();
  spec.memory.recompute_layers = proto.memory().recompute_layers();
  EVENSTEP_RETURN_IF_ERROR(
      FromName("memory.recompute", proto.memory().recompute(),
               jobspec::ParseRecompute, &spec.memory.recompute));
  EVENSTEP_RETURN_IF_ERROR(FromName("blocks", proto.blocks(),
                                    jobspec::ParseBlockShape, &spec.blocks));
  if (proto.groups_per_rank() != 0) {
    spec.groups_per_rank = proto.groups_per_rank();
  }
  spec.memory.recompute_temporal_layers =
      proto.memory().recompute_temporal_layers();
  if (proto.has_costs()) {
    EVENSTEP_ASSIGN_OR_RETURN(spec.costs, FromProto(proto.costs()));
  }
  spec.timeouts = FromProto(proto.timeouts());
  spec.profile = FromProto(proto.profile());
  spec.refit = !proto.keep_costs();
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateJobSpec(spec));
  return spec;
}

namespace {

using CollectiveCosts = std::vector<planner::TimeModel::CollectiveCost>;
using CollectiveProtos = google::protobuf::RepeatedPtrField<v1::CollectiveCost>;

void ToProto(const CollectiveCosts& costs, CollectiveProtos* protos) {
  for (const auto& entry : costs) {
    v1::CollectiveCost* const cost = protos->Add();
    cost->set_degree(entry.degree);
    cost->set_ns_per_token(entry.ns_per_token);
  }
}

CollectiveCosts FromProto(const CollectiveProtos& protos) {
  CollectiveCosts costs;
  for (const v1::CollectiveCost& cost : protos) {
    costs.push_back({cost.degree(), cost.ns_per_token()});
  }
  return costs;
}

v1::LayerCost ToProto(const planner::LayerTime& time) {
  v1::LayerCost proto;
  proto.set_linear_ns_per_token(time.linear_ns_per_token);
  proto.set_quadratic_ns_per_token2(time.quadratic_ns_per_token2);
  return proto;
}

planner::LayerTime FromProto(const v1::LayerCost& proto) {
  return {proto.linear_ns_per_token(), proto.quadratic_ns_per_token2()};
}

}  // namespace

v1::CostModel ToProto(const planner::TimeModel& costs) {
  v1::CostModel proto;
  proto.set_micro_batch_fixed_ns(costs.micro_batch_fixed_ns);
  proto.set_linear_ns_per_token(costs.linear_ns_per_token);
  proto.set_quadratic_ns_per_token2(costs.quadratic_ns_per_token2);
  proto.set_collective_latency_ns(costs.collective_latency_ns);
  ToProto(costs.collective, proto.mutable_collective());
  ToProto(costs.gather, proto.mutable_gather());
  proto.set_step_fixed_ns(costs.step_fixed_ns);
  proto.set_head_ns_per_token(costs.head_ns_per_token);
  const planner::LayerTime none;
  if (costs.spatial == none && costs.temporal == none) return proto;
  *proto.mutable_spatial() = ToProto(costs.spatial);
  *proto.mutable_temporal() = ToProto(costs.temporal);
  return proto;
}

absl::StatusOr<planner::TimeModel> FromProto(const v1::CostModel& proto) {
  planner::TimeModel costs;
  costs.micro_batch_fixed_ns = proto.micro_batch_fixed_ns();
  costs.linear_ns_per_token = proto.linear_ns_per_token();
  costs.quadratic_ns_per_token2 = proto.quadratic_ns_per_token2();
  costs.collective_latency_ns = proto.collective_latency_ns();
  costs.collective = FromProto(proto.collective());
  costs.gather = FromProto(proto.gather());
  costs.step_fixed_ns = proto.step_fixed_ns();
  costs.head_ns_per_token = proto.head_ns_per_token();
  costs.spatial = FromProto(proto.spatial());
  costs.temporal = FromProto(proto.temporal());
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateCosts(costs));
  return costs;
}

}  // namespace evenstep::wire
