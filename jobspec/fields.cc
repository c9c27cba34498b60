#include "jobspec/fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

Field OptionalDuration(std::string key, std::optional<absl::Duration>* target) {
  return {std::move(key),
          [target](absl::string_view text) -> absl::Status {
            absl::Duration parsed;
            EVENSTEP_RETURN_IF_ERROR(ParseValue(text, &parsed));
            *target = parsed;
            return absl::OkStatus();
          },
          [target]() -> std::optional<std::string> {
            if (!target->has_value()) return std::nullopt;
            return FormatValue(**target);
          }};
}

Field PolicyField(std::string key, planner::Policy* target) {
  return {std::move(key),
          [target](absl::string_view text) -> absl::Status {
            EVENSTEP_ASSIGN_OR_RETURN(*target, planner::ParsePolicy(text));
            return absl::OkStatus();
          },
          [target] { return std::string(planner::PolicyName(*target)); }};
}

template <typename Enum>
Field NameField(std::string key, absl::string_view (*name_of)(Enum),
                absl::Status (*parse)(absl::string_view, Enum*), Enum* target) {
  return {std::move(key),
          [=](absl::string_view text) { return parse(text, target); },
          [=] { return std::string(name_of(*target)); }};
}

Field SpModesField(std::string key, std::vector<planner::SpMode>* target) {
  return {
      std::move(key),
      [target](absl::string_view text) { return ParseSpModes(text, target); },
      [target]() -> std::optional<std::string> {
        if (target->empty()) return std::nullopt;
        return SpModesText(*target);
      }};
}

// Written only when it holds something.
Field OptionalText(std::string key, std::string* target) {
  return {std::move(key),
          [target](absl::string_view text) { return ParseValue(text, target); },
          [target]() -> std::optional<std::string> {
            if (target->empty()) return std::nullopt;
            return *target;
          }};
}

// Written of video models only.
Field OfVideo(const JobSpec* spec, Field field) {
  field.format = [spec, format = field.format]() -> std::optional<std::string> {
    if (!spec->model.is_video()) return std::nullopt;
    return format();
  };
  return field;
}

// Written only where it is not the usual value.
template <typename T>
Field UnlessUsual(std::string key, T usual, T* target) {
  Field field = ValueField(std::move(key), target);
  field.format = [usual, target]() -> std::optional<std::string> {
    if (*target == usual) return std::nullopt;
    return FormatValue(*target);
  };
  return field;
}

// A cost that one of the two kinds of models does without.
Field OptionalCost(std::string key, double* target) {
  return {std::move(key),
          [target](absl::string_view text) { return ParseValue(text, target); },
          [target]() -> std::optional<std::string> {
            if (*target == 0) return std::nullopt;
            return FormatValue(*target);
          }};
}

}  // namespace

std::vector<Field> JobFields(JobSpec* spec) {
  DataSpec* const data = &spec->data;
  return {
      ValueField("name", &spec->name),
      ValueField("kind", &spec->kind),
      OfVideo(spec, NameField("model.kind", ModelKindName, ParseModelKind,
                              &spec->model.kind)),
      OptionalText("model.name", &spec->model.name),
      ValueField("model.layers", &spec->model.layers),
      ValueField("model.width", &spec->model.width),
      ValueField("model.heads", &spec->model.heads),
      ValueField("model.kv_heads", &spec->model.kv_heads),
      ValueField("model.vocab", &spec->model.vocab),
      NameField("model.attention", AttentionName, ParseAttention,
                &spec->model.attention),
      SpModesField("model.sp_modes", &spec->model.sp_modes),
      ValueField("model.expand_kv_heads", &spec->model.expand_kv_heads),
      OfVideo(spec, ValueField("model.channels", &spec->model.channels)),
      OfVideo(spec, ValueField("model.patch", &spec->model.patch)),
      OfVideo(spec, ValueField("model.max_switch_degree",
                               &spec->model.max_switch_degree)),
      OptionalText("model.weights", &spec->model.weights),
      UnlessUsual("model.mlp_width", 0, &spec->model.mlp_width),
      UnlessUsual("model.rope_theta", kRopeTheta, &spec->model.rope_theta),
      UnlessUsual("model.norm_epsilon", kNormEpsilon,
                  &spec->model.norm_epsilon),
      ValueField("data.source", &data->source),
      OptionalText("data.tokenizer", &data->tokenizer),
      ValueField("data.max_length", &data->max_length),
      NameField("data.on_too_long", OnTooLongName, ParseOnTooLong,
                &data->on_too_long),
      NameField("data.on_bad_sample", OnBadSampleName, ParseOnBadSample,
                &data->on_bad_sample),
      OfVideo(spec, ValueField("data.given_frames", &data->given_frames)),
      UnlessUsual("evaluation.share", 0.0, &spec->evaluation.share),
      OptionalText("evaluation.source", &spec->evaluation.source),
      UnlessUsual<int64_t>("evaluation.every", 0, &spec->evaluation.every),
      UnlessUsual<int64_t>("evaluation.samples", 0, &spec->evaluation.samples),
      ValueField("batch.samples", &spec->batch_samples),
      ValueField("steps", &spec->steps),
      ValueField("seed", &spec->seed),
      ValueField("optimizer.lr", &spec->optimizer.lr),
      ValueField("optimizer.warmup", &spec->optimizer.warmup),
      ValueField("optimizer.weight_decay", &spec->optimizer.weight_decay),
      ValueField("optimizer.clip", &spec->optimizer.clip),
      NameField("optimizer.sharding", OptimizerShardingName,
                ParseOptimizerSharding, &spec->optimizer.sharding),
      NameField("precision", PrecisionName, ParsePrecision, &spec->precision),
      PolicyField("policy", &spec->policy),
      ValueField("ranks", &spec->ranks),
      NameField("blocks", BlockShapeName, ParseBlockShape, &spec->blocks),
      ValueField("groups_per_rank", &spec->groups_per_rank),
      ValueField("look_ahead", &spec->look_ahead),
      ValueField("memory.tokens_per_rank", &spec->memory.tokens_per_rank),
      NameField("memory.recompute", RecomputeName, ParseRecompute,
                &spec->memory.recompute),
      ValueField("memory.recompute_layers", &spec->memory.recompute_layers),
      OfVideo(spec, ValueField("memory.recompute_temporal_layers",
                               &spec->memory.recompute_temporal_layers)),
      OptionalDuration("timeouts.collective", &spec->timeouts.collective),
      ValueField("timeouts.start", &spec->timeouts.start),
      ValueField("timeouts.stop", &spec->timeouts.stop),
      ValueField("refit", &spec->refit),
      OptionalText("profile.model", &spec->profile.model),
      OptionalText("profile.device", &spec->profile.device),
      OptionalText("profile.software", &spec->profile.software),
      OptionalText("profile.precision", &spec->profile.precision),
  };
}

std::vector<Field> CostFields(planner::TimeModel* costs) {
  return {
      ValueField("micro_batch_fixed_ns", &costs->micro_batch_fixed_ns),
      ValueField("linear_ns_per_token", &costs->linear_ns_per_token),
      ValueField("quadratic_ns_per_token2", &costs->quadratic_ns_per_token2),
      ValueField("collective_latency_ns", &costs->collective_latency_ns),
      ValueField("step_fixed_ns", &costs->step_fixed_ns),
      ValueField("head_ns_per_token", &costs->head_ns_per_token),
      OptionalCost("spatial_linear_ns_per_token",
                   &costs->spatial.linear_ns_per_token),
      OptionalCost("spatial_quadratic_ns_per_token2",
                   &costs->spatial.quadratic_ns_per_token2),
      OptionalCost("temporal_linear_ns_per_token",
                   &costs->temporal.linear_ns_per_token),
      OptionalCost("temporal_quadratic_ns_per_token2",
                   &costs->temporal.quadratic_ns_per_token2),
  };
}

const Field* FindField(const std::vector<Field>& fields,
                       absl::string_view key) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& f) { return f.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

absl::Status At(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", status.message()));
}

}  // namespace evenstep::jobspec
