#include "client/plan/plan_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plan/plan_table.h"
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"

namespace evenstep::plan {
namespace {

using planner::MicroBatch;
using planner::Plan;
using planner::PlanRequest;

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// By kind of layer: one number for text, spatial and temporal for video.
Json LayersToJson(const PlanRequest& request,
                  const planner::LayerCounts& layers) {
  if (!request.model.is_video()) return {{"layers", layers.total()}};
  return {{"spatial_layers", layers[0]}, {"temporal_layers", layers[1]}};
}

Json RequestToJson(const PlanRequest& request, const RequestNames& names) {
  int64_t longest = 0;
  for (const auto& sample : request.samples) {
    longest = std::max(longest, sample.length);
  }
  const auto& options = request.options;
  Json json = {
      {"lengths", names.lengths},
      {"samples", request.samples.size()},
      {"tokens", TokensOf(request.samples)},
      {"longest", longest},
      {"gpus", request.cluster.num_ranks()},
      {"gpus_per_node", request.cluster.ranks_per_node},
      {"rank_speed", request.cluster.rank_speed},
      {"costs", names.costs},
      {"costs_source", names.costs_source},
      {"degrees", planner::LegalDegrees(request)},
      {"tokens_per_gpu", planner::TokensPerRank(request, 0)},
      {"micro_batch_fixed_ms",
       static_cast<double>(request.time.micro_batch_fixed_ns) * 1e-6},
      {"sync",
       options.sync == planner::SyncMode::kPerStep ? "per_step" : "per_round"},
      {"blocks", options.blocks == planner::BlockShape::kAligned
                     ? "aligned"
                     : "contiguous"}};
  Json modes = Json::array();
  for (const auto& mode : planner::RecomputeModes(request)) {
    modes.push_back(LayersToJson(request, mode));
  }
  json["layers"] = LayersToJson(request, request.model.layers());
  json["recompute"] = modes;
  json["max_length"] = request.run.max_length;
  json["max_groups_per_rank"] = options.max_groups_per_rank;
  json["work_budget"] = options.work_budget;
  json["settings"] = Json::object();
  for (const auto& [name, value] : names.settings) {
    json["settings"][name] = value;
  }
  return json;
}

Json MicroBatchesToJson(const PlanRequest& request, const Plan& plan) {
  Json list = Json::array();
  for (const MicroBatch& batch : plan.micro_batches) {
    Json samples = Json::array();  // positions in the list of lengths
    for (int index : batch.samples) {
      samples.push_back(request.samples[index].id);
    }
    list.push_back(
        {{"order", list.size()},
         {"round", batch.round},
         {"first_rank", batch.first_rank},
         {"degree", batch.degree},
         {"samples", samples},
         {"tokens_per_rank", batch.padded_tokens / batch.degree},
         {"recompute", LayersToJson(request, batch.recompute_layers)},
         {"seconds", Seconds(batch.predicted_ns)}});
  }
  return list;
}

Json SimulatedToJson(const planner::SimulatedStep& step) {
  Json busy = Json::array();
  Json waiting = Json::array();
  for (const auto& rank : step.ranks) {
    busy.push_back(Seconds(rank.busy_ns));
    waiting.push_back(Seconds(rank.waiting_ns));
  }
  return {{"step_seconds", Seconds(step.step_ns)},
          {"idle_share", step.idle_share},
          {"busy_seconds", busy},
          {"waiting_seconds", waiting}};
}

Json DrawnToJson(const DrawnBatch& drawn) {
  Json left = Json::array();
  for (const auto& sample : drawn.left) left.push_back(sample.id);
  return {{"samples", drawn.request.samples.size()},
          {"tokens", TokensOf(drawn.request.samples)},
          {"left_samples", left},
          {"left_tokens", TokensOf(drawn.left)}};
}

Json RunToJson(const PlanRequest& request, const PolicyRun& run) {
  const auto name = planner::PolicyName(run.policy);
  Json json = {{"policy", std::string(name.data(), name.size())}};
  if (!run.status.ok()) {
    json["error"] = std::string(run.status.message());
    return json;
  }
  const Plan& plan = run.plan;
  if (run.drawn.has_value()) json["batch"] = DrawnToJson(*run.drawn);
  json["step_seconds"] = Seconds(plan.predicted_step_ns);
  json["lower_bound_seconds"] = Seconds(plan.lower_bound_ns);
  json["bound"] = BoundName(plan.active_bound);
  json["ratio"] = RatioToBound(plan);
  json["planning_seconds"] = run.planning_seconds;
  json["imbalance"] = plan.predicted_imbalance;
  json["padding_ratio"] = plan.padding_ratio;
  json["recompute_ratio"] = RecomputeRatio(request, plan);
  json["tokens_per_second"] = TokensPerSecond(request, plan);
  if (run.simulated.has_value()) {
    json["simulated"] = SimulatedToJson(*run.simulated);
  }
  json["plan"] = {{"digest", absl::StrFormat("%016x", plan.digest)},
                  {"micro_batches", MicroBatchesToJson(request, plan)}};
  return json;
}

}  // namespace

std::string DescribeSettings(const RequestNames& names) {
  std::string text;
  for (const auto& [name, value] : names.settings) {
    absl::StrAppend(&text, text.empty() ? "with --" : ", --", name,
                    value.empty() ? "" : " ", value);
  }
  return text;
}

Json ToJson(const Comparison& comparison, const RequestNames& names) {
  Json policies = Json::array();
  for (const PolicyRun& run : comparison.runs) {
    policies.push_back(RunToJson(comparison.RequestOf(run), run));
  }
  return {{"request", RequestToJson(comparison.request, names)},
          {"policies", policies}};
}

}  // namespace evenstep::plan
