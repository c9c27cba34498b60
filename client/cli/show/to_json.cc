#include "client/cli/show/to_json.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/yaml.h"
#include "planner/costs/cost_fields.h"

namespace evenstep::cli {
namespace {

Json TimeToJson(std::optional<absl::Time> time) {
  if (!time) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", *time, absl::UTCTimeZone());
}

Json ScalarToJson(const std::string& text) {
  int64_t integer = 0;
  double number = 0;
  if (text == "true" || text == "false") return text == "true";
  if (text == "null" || text == "~") return nullptr;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  if (absl::SimpleAtod(text, &number)) return number;
  return text;
}

Json NodeToJson(const YamlNode& node) {
  Json json;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      break;
    case YamlNode::Kind::kScalar:
      json = ScalarToJson(node.scalar);
      break;
    case YamlNode::Kind::kList:
      json = Json::array();
      for (const YamlNode& item : node.items) json.push_back(NodeToJson(item));
      break;
    case YamlNode::Kind::kMap:
      json = Json::object();
      for (const YamlEntry& entry : node.entries) {
        json[entry.key] = NodeToJson(entry.value);
      }
      break;
  }
  return json;
}

void AppendYaml(const Json& json, const std::string& indent,
                std::string* yaml) {
  for (auto it = json.begin(); it != json.end(); ++it) {
    const Json& value = *it;
    absl::StrAppend(
        yaml, indent,
        json.is_object() ? absl::StrCat(YamlScalar(it.key()), ":") : "-");
    if (value.is_structured() && !value.empty()) {
      absl::StrAppend(yaml, "\n");
      AppendYaml(value, absl::StrCat(indent, "  "), yaml);
    } else if (value.is_string()) {
      absl::StrAppend(yaml, " ", YamlScalar(value.get<std::string>()), "\n");
    } else {
      absl::StrAppend(yaml, " ", DumpJson(value, -1), "\n");
    }
  }
}

}  // namespace

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

// Null: there was none.
Json ToJson(const std::optional<client::Evaluation>& evaluation) {
  if (!evaluation.has_value()) return nullptr;
  return {{"step", evaluation->step},
          {"loss", evaluation->loss},
          {"trained_tokens", evaluation->trained_tokens},
          {"seconds", evaluation->seconds}};
}

Json ToJson(const client::Totals& totals) {
  return {{"step_seconds", totals.step_seconds},
          {"idle_share", totals.idle_share},
          {"coordination_share", totals.coordination_share},
          {"trained_tokens", totals.trained_tokens},
          {"padding_ratio", totals.padding_ratio},
          {"steps_with_plan_lead", totals.steps_with_plan_lead},
          {"steps_after_fourth", totals.steps_after_fourth},
          {"plans_refused", totals.plans_refused},
          {"prediction_error", totals.prediction_error},
          {"cost_drift", totals.cost_drift},
          {"last_evaluation", ToJson(totals.last_evaluation)},
          {"best_evaluation", ToJson(totals.best_evaluation)}};
}

Json ToJson(const client::DataSummary& data) {
  return {{"num_samples", data.num_samples},
          {"num_too_long", data.num_too_long},
          {"num_bad", data.num_bad},
          {"num_truncated", data.num_truncated},
          {"longest", data.longest_tokens},
          {"total_tokens", data.total_tokens},
          {"warnings", data.warnings},
          {"evaluation_samples", data.evaluation_samples},
          {"evaluation_tokens", data.evaluation_tokens},
          {"evaluation_too_long", data.evaluation_too_long},
          {"evaluation_bad", data.evaluation_bad},
          {"evaluation_truncated", data.evaluation_truncated},
          {"evaluation_untrained", data.evaluation_untrained},
          {"indexed_bytes", data.indexed_bytes},
          {"bytes_to_index", data.bytes_to_index},
          {"largest_token", data.largest_token},
          {"num_hidden_files", data.num_hidden_files},
          {"num_own_files", data.num_own_files},
          {"num_tool_files", data.num_tool_files},
          {"num_links", data.num_links},
          {"num_json_files", data.num_json_files}};
}

namespace {

template <typename Time>
Json CostsToJson(const Time& costs) {
  Json json;
  planner::ForEachWrittenNumber(
      costs, [&json](const std::string& key, auto cost) { json[key] = cost; });
  planner::ForEachCostList(costs, [&json](const char* key, const auto& list) {
    const bool usual = key == absl::string_view("collective") ||
                       key == absl::string_view("gather");
    if (list.empty() && !usual) return;
    Json& entries = json[key] = Json::array();
    for (const auto& cost : list) {
      entries.push_back(
          {{"degree", cost.degree}, {"ns_per_token", cost.ns_per_token}});
    }
  });
  return json;
}

}  // namespace

Json ToJson(const client::Costs& costs) { return CostsToJson(costs); }

Json ToJson(const planner::TimeModel& costs) { return CostsToJson(costs); }

// A number of bytes that is not known is written as 0.
Json ToJson(const client::StepSummary& step) {
  return {{"step", step.step},
          {"loss", step.loss},
          {"step_seconds", step.step_seconds},
          {"predicted_seconds", step.predicted_seconds},
          {"trained_tokens", step.trained_tokens},
          {"idle_share", step.idle_share},
          {"predicted_imbalance", step.predicted_imbalance},
          {"padding_ratio", step.padding_ratio},
          {"gate_seconds", step.gate_seconds},
          {"gradient_norm", step.gradient_norm},
          {"plan_lead", step.plan_lead},
          {"policy", step.policy},
          {"lower_bound_seconds", step.lower_bound_seconds},
          {"num_micro_batches", step.num_micro_batches},
          {"highest_degree", step.highest_degree},
          {"slowest_cpu_seconds", step.slowest_cpu_seconds},
          {"mean_cpu_seconds", step.mean_cpu_seconds},
          {"predicted_activation_bytes",
           step.predicted_activation_bytes.value_or(0)},
          {"peak_activation_bytes", step.peak_activation_bytes.value_or(0)},
          {"peak_tensor_bytes", step.peak_tensor_bytes.value_or(0)},
          {"recompute_ratio", step.recompute_ratio},
          {"groups_live", step.groups_live},
          {"groups_opened", step.groups_opened},
          {"group_opening_seconds", step.group_opening_seconds},
          {"evaluation", ToJson(step.evaluation)}};
}

Json ToJson(const client::JobEvent& event) {
  return {{"sequence", event.sequence},
          {"time", TimeToJson(event.time)},
          {"state", std::string(client::JobStateName(event.state))},
          {"reason", event.reason},
          {"message", event.message},
          {"attempt", event.attempt}};
}

Json ToJson(const client::LogLine& line) {
  return {{"sequence", line.sequence},
          {"time", TimeToJson(line.time)},
          {"rank", line.rank},
          {"text", line.text},
          {"attempt", line.attempt}};
}

Json ToJson(const client::Job& job) {
  Json placements = Json::array();
  for (const client::Placement& placement : job.placements) {
    placements.push_back({{"node", placement.node},
                          {"first_rank", placement.first_rank},
                          {"num_ranks", placement.num_ranks}});
  }
  Json recent = Json::array();
  for (const client::StepSummary& step : job.recent_steps) {
    recent.push_back(ToJson(step));
  }
  return {{"id", job.id},
          {"name", job.name},
          {"state", std::string(client::JobStateName(job.state))},
          {"reason", job.reason},
          {"message", job.message},
          {"submitted", TimeToJson(job.submitted)},
          {"started", TimeToJson(job.started)},
          {"ended", TimeToJson(job.ended)},
          {"attempt", job.attempt},
          {"generation", job.generation},
          {"queue_position", job.queue_position},
          {"policy", job.policy},
          {"ranks", job.ranks},
          {"num_steps", job.num_steps},
          {"steps_done", job.steps_done},
          {"placements", placements},
          {"totals", ToJson(job.totals)},
          {"data", job.data ? ToJson(*job.data) : Json()},
          {"costs", job.costs ? ToJson(*job.costs) : Json()},
          {"weights_path", job.weights_path},
          {"weights_node", job.weights_node},
          {"weights_steps", job.weights_steps},
          {"weights_note", job.weights_note},
          {"emulated_link", job.emulated_link},
          {"recent_steps", recent},
          {"spec", YamlToJson(job.job_yaml)}};
}

Json YamlToJson(const std::string& yaml) {
  auto node = ParseYaml(yaml, "job.yaml");
  return node.ok() ? NodeToJson(*node) : Json();
}

std::string JsonToYaml(const Json& json) {
  std::string yaml;
  AppendYaml(json, "", &yaml);
  return yaml;
}

}  // namespace evenstep::cli
