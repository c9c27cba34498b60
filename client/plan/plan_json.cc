#include "client/plan/plan_json.h"

#include <algorithm>

#include "absl/strings/str_format.h"
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
  int64_t tokens = 0;
  int64_t longest = 0;
  for (const auto& sample : request.samples) {
    tokens += sample.length;
    longest = std::max(longest, sample.length);
  }
  const auto& options = request.options;
  Json json = {
      {"lengths", names.lengths},
      {"samples", request.samples.size()},
      {"tokens", tokens},
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
  return json;
}

Json MicroBatchesToJson(const PlanRequest& request, const Plan& plan) {
  Json list = Json::array();
  for (const MicroBatch& batch : plan.micro_batches) {
    list.push_back(
        {{"order", list.size()},
         {"round", batch.round},
         {"first_rank", batch.first_rank},
         {"degree", batch.degree},
         {"samples", batch.samples},
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

Json RunToJson(const PlanRequest& request, const PolicyRun& run) {
  const auto name = planner::PolicyName(run.policy);
  Json json = {{"policy", std::string(name.data(), name.size())}};
  if (!run.status.ok()) {
    json["error"] = std::string(run.status.message());
    return json;
  }
  const Plan& plan = run.plan;
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

Json ToJson(const Comparison& comparison, const RequestNames& names) {
  Json policies = Json::array();
  for (const PolicyRun& run : comparison.runs) {
    policies.push_back(RunToJson(comparison.request, run));
  }
  return {{"request", RequestToJson(comparison.request, names)},
          {"policies", policies}};
}

}  // namespace evenstep::plan
