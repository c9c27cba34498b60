#include "worker/trainer/job/trainer_setup.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "wire/job_spec_proto.h"

namespace evenstep::trainer {
namespace {

absl::Status CheckRanks(const v1::Start& start, int connected_rank) {
  if (start.world() < 1 || start.rank() < 0 || start.rank() >= start.world()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", start.rank(), " is not within a world of ", start.world()));
  }
  if (start.rank() != connected_rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("told to be rank ", start.rank(), ", started as rank ",
                     connected_rank));
  }
  if (start.spec().ranks() != start.world()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job wants ", start.spec().ranks(),
                     " ranks, the world has ", start.world()));
  }
  const auto& nodes = start.ranks_per_node();
  const int on_nodes = std::accumulate(nodes.begin(), nodes.end(), 0);
  if (!nodes.empty() && on_nodes != start.world()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nodes have ", on_nodes, " ranks, the world has ", start.world()));
  }
  return absl::OkStatus();
}

// Without nodes in the message all ranks stand on one.
int LocalRank(const v1::Start& start) {
  int first = 0;
  for (const int ranks : start.ranks_per_node()) {
    if (start.rank() < first + ranks) break;
    first += ranks;
  }
  return start.rank() - first;
}

}  // namespace

absl::StatusOr<TrainerSetup> MakeTrainerSetup(const v1::Start& start,
                                              int connected_rank) {
  EVENSTEP_RETURN_IF_ERROR(CheckRanks(start, connected_rank));
  TrainerSetup setup;
  EVENSTEP_ASSIGN_OR_RETURN(setup.spec, wire::FromProto(start.spec()));
  setup.job_id = start.job_id();
  setup.attempt = start.attempt();
  setup.generation = start.generation();
  setup.rank = start.rank();
  setup.world = start.world();
  setup.local_rank = LocalRank(start);
  setup.ranks_per_node.assign(start.ranks_per_node().begin(),
                              start.ranks_per_node().end());
  setup.listen_host = start.listen_host();
  setup.output_dir = start.output_dir();
  setup.threads = std::max(1, start.threads());
  return setup;
}

AttentionMask ToMask(jobspec::Attention attention) {
  return attention == jobspec::Attention::kFull ? AttentionMask::kFull
                                                : AttentionMask::kCausal;
}

DecoderConfig ToDecoderConfig(const jobspec::ModelSpec& model) {
  DecoderConfig config;
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.kv_heads = model.kv_heads;
  config.vocab = model.vocab;
  config.mlp_width = model.mlp_width;
  config.rope_theta = model.rope_theta;
  config.norm_epsilon = model.norm_epsilon;
  config.attention = ToMask(model.attention);
  return config;
}

int PatchValues(const jobspec::ModelSpec& model) {
  return model.patch * model.patch * model.channels;
}

DiffusionTransformerConfig ToDiffusionTransformerConfig(
    const jobspec::ModelSpec& model) {
  DiffusionTransformerConfig config;
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.channels = PatchValues(model);
  return config;
}

ModelRequest ToModelRequest(const jobspec::ModelSpec& model,
                            int64_t max_length) {
  ModelRequest request;
  request.layers = model.layers;
  request.width = model.width;
  request.heads = model.heads;
  request.kv_heads = model.kv_heads;
  request.vocab = model.vocab;
  request.max_length = max_length;
  request.attention = ToMask(model.attention);
  if (model.is_video()) request.patch_values = PatchValues(model);
  return request;
}

}  // namespace evenstep::trainer
