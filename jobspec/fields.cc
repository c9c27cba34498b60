#include "jobspec/fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

template <typename T>
Field Value(std::string key, T* target) {
  return {std::move(key),
          [target](absl::string_view text) { return ParseValue(text, target); },
          [target] { return FormatValue(*target); }};
}

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

}  // namespace

std::vector<Field> JobFields(JobSpec* spec) {
  DataSpec* const data = &spec->data;
  return {
      Value("name", &spec->name),
      Value("kind", &spec->kind),
      Value("model.layers", &spec->model.layers),
      Value("model.width", &spec->model.width),
      Value("model.heads", &spec->model.heads),
      Value("model.kv_heads", &spec->model.kv_heads),
      Value("model.vocab", &spec->model.vocab),
      NameField("model.attention", AttentionName, ParseAttention,
                &spec->model.attention),
      SpModesField("model.sp_modes", &spec->model.sp_modes),
      Value("model.expand_kv_heads", &spec->model.expand_kv_heads),
      Value("data.source", &data->source),
      Value("data.max_length", &data->max_length),
      NameField("data.on_too_long", OnTooLongName, ParseOnTooLong,
                &data->on_too_long),
      NameField("data.on_bad_sample", OnBadSampleName, ParseOnBadSample,
                &data->on_bad_sample),
      Value("batch.samples", &spec->batch_samples),
      Value("steps", &spec->steps),
      Value("seed", &spec->seed),
      Value("optimizer.lr", &spec->optimizer.lr),
      Value("optimizer.warmup", &spec->optimizer.warmup),
      Value("optimizer.weight_decay", &spec->optimizer.weight_decay),
      Value("optimizer.clip", &spec->optimizer.clip),
      NameField("optimizer.sharding", OptimizerShardingName,
                ParseOptimizerSharding, &spec->optimizer.sharding),
      NameField("precision", PrecisionName, ParsePrecision, &spec->precision),
      PolicyField("policy", &spec->policy),
      Value("ranks", &spec->ranks),
      Value("look_ahead", &spec->look_ahead),
      Value("memory.tokens_per_rank", &spec->memory.tokens_per_rank),
      Value("memory.recompute_layers", &spec->memory.recompute_layers),
      OptionalDuration("timeouts.collective", &spec->timeouts.collective),
      Value("timeouts.start", &spec->timeouts.start),
      Value("timeouts.stop", &spec->timeouts.stop),
      Value("refit", &spec->refit),
      OptionalText("profile.model", &spec->profile.model),
      OptionalText("profile.device", &spec->profile.device),
      OptionalText("profile.software", &spec->profile.software),
      OptionalText("profile.precision", &spec->profile.precision),
  };
}

std::vector<Field> CostFields(planner::TimeModel* costs) {
  return {
      Value("micro_batch_fixed_ns", &costs->micro_batch_fixed_ns),
      Value("linear_ns_per_token", &costs->linear_ns_per_token),
      Value("quadratic_ns_per_token2", &costs->quadratic_ns_per_token2),
      Value("collective_latency_ns", &costs->collective_latency_ns),
      Value("step_fixed_ns", &costs->step_fixed_ns),
      Value("head_ns_per_token", &costs->head_ns_per_token),
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
