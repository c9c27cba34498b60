#include "client/plan/plan_setup.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/limits.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::plan {
namespace {

using planner::PlanRequest;

// Of recompute, from none to all: of the layers of a text model, and of each
// kind of a video model.
constexpr int kTextSteps = 4;
constexpr int kVideoSteps = 2;
constexpr int64_t kMaxCostFileBytes = 1 << 20;

absl::Status AddRankSpeeds(const std::map<int, double>& rank_speed,
                           planner::Cluster* cluster) {
  if (rank_speed.empty()) return absl::OkStatus();
  const int num_ranks = cluster->num_ranks();
  cluster->rank_speed.assign(num_ranks, 1);
  for (const auto& [rank, speed] : rank_speed) {
    if (rank < 0 || rank >= num_ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rank-speed names rank ", rank,
                       "; the ranks are 0 to ", num_ranks - 1));
    }
    cluster->rank_speed[rank] = speed;
  }
  return absl::OkStatus();
}

// Steps from none to all of a kind's layers.
std::vector<int> LayerSteps(int num_layers, int num_steps) {
  std::vector<int> steps;
  for (int step = 0; step <= num_steps; ++step) {
    steps.push_back(num_layers * step / num_steps);
  }
  return steps;
}

void AddRecompute(const PlanSetup& setup, PlanRequest* request) {
  planner::Options& options = request->options;
  if (setup.recompute == RecomputeChoice::kFixed) {
    const int count = setup.recompute_layers.value_or(0);
    options.recompute_layers =
        planner::LayerCounts(count, request->model.is_video() ? count : 0);
    return;
  }
  const planner::LayerCounts layers = request->model.layers();
  if (!request->model.is_video()) {
    for (int count : LayerSteps(layers.total(), kTextSteps)) {
      options.recompute_choices.emplace_back(count);
    }
    return;
  }
  for (int spatial : LayerSteps(layers[0], kVideoSteps)) {
    for (int temporal : LayerSteps(layers[1], kVideoSteps)) {
      options.recompute_choices.emplace_back(spatial, temporal);
    }
  }
}

// A stated cap is of tokens with nothing recomputed. Where layers are
// recomputed, it is turned into the bytes that so many tokens take.
absl::Status SetTokensPerGpu(const PlanSetup& setup, PlanRequest* request) {
  if (setup.tokens_per_gpu == 0) return absl::OkStatus();
  planner::MemoryModel& memory = request->memory;
  if (setup.recompute == RecomputeChoice::kFixed &&
      setup.recompute_layers.value_or(0) == 0) {
    memory.tokens_per_rank = setup.tokens_per_gpu;
    return absl::OkStatus();
  }
  const int64_t bytes_per_token = planner::BytesPerToken(*request, 0, 1);
  const __int128 bytes = __int128{setup.tokens_per_gpu} * bytes_per_token;
  if (bytes > planner::kMaxActivationBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        setup.tokens_per_gpu, " tokens per GPU of ", bytes_per_token,
        " bytes each are more than ", planner::kMaxActivationBytes, " bytes"));
  }
  memory.tokens_per_rank = 0;
  memory.activation_bytes = static_cast<int64_t>(bytes);
  return absl::OkStatus();
}

// A text model looks at the number of tokens alone.
void AddSamples(const std::vector<data::LengthDraw>& samples, bool video,
                PlanRequest* request) {
  request->samples.reserve(samples.size());
  for (const data::LengthDraw& draw : samples) {
    planner::Sample sample;
    sample.id = static_cast<int64_t>(request->samples.size());
    sample.length = sample.trained_tokens = draw.length;
    if (video) {
      sample.frames = draw.frames;
      sample.height = draw.height;
      sample.width = draw.width;
    }
    request->samples.push_back(sample);
  }
}

absl::Status CheckNumbers(const PlanSetup& setup) {
  if (setup.tokens_per_gpu < 0 ||
      setup.tokens_per_gpu > planner::kMaxLengthTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens per GPU are ", setup.tokens_per_gpu,
                     "; from 1 to ", planner::kMaxLengthTokens));
  }
  if (setup.recompute == RecomputeChoice::kPlan &&
      setup.recompute_layers.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--recompute-layers ", *setup.recompute_layers,
        " goes with --recompute fixed; with --recompute plan the number is "
        "chosen for every micro-batch"));
  }
  constexpr double kMostMs = planner::kMaxFixedNs * 1e-6;
  if (!(setup.micro_batch_fixed_ms <= kMostMs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the fixed time of a micro-batch is ",
                     setup.micro_batch_fixed_ms, " ms; at most ", kMostMs));
  }
  return absl::OkStatus();
}

// Degrees that were asked for and cannot be would be left out in silence.
absl::Status CheckDegrees(const PlanSetup& setup, const PlanRequest& request) {
  const int num_ranks = request.cluster.num_ranks();
  const std::vector<int> legal = planner::LegalDegrees(request);
  for (int degree : setup.degrees) {
    if (std::find(legal.begin(), legal.end(), degree) != legal.end()) continue;
    if (degree > num_ranks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--degrees lists ", degree, "; the GPUs are ", num_ranks));
    }
    if (planner::FindSplit(request.model, degree).has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--degrees lists ", degree,
          "; with aligned blocks a degree is a power of two, or all ",
          num_ranks, " GPUs (--blocks contiguous allows others)"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--degrees lists ", degree,
                     "; no mode of sequence parallelism of these costs runs it "
                     "(model.sp_modes, model.max_switch_degree)"));
  }
  return absl::OkStatus();
}

absl::Status CheckAllHaveFrames(const StepLengths& lengths,
                                const std::string& costs) {
  for (const data::LengthDraw& sample : lengths.samples) {
    if (sample.frames > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        lengths.origin, " has a sample of ", sample.length,
        " tokens without frames, and --costs ", costs,
        " are of a video model; name a text model, such as --costs ",
        kDefaultCosts));
  }
  return absl::OkStatus();
}

}  // namespace

std::string NoteOn(const PlanRequest& request) {
  const int num_ranks = request.cluster.num_ranks();
  const planner::ModelShape& model = request.model;
  if (num_ranks == 1 || model.is_video() || !model.forced_degrees.empty() ||
      planner::LegalDegrees(request).size() > 1) {
    return "";
  }
  return absl::StrCat(
      "the model's ", model.heads, " heads (", model.kv_heads,
      " of K and V) can be shared by no ",
      request.options.blocks == planner::BlockShape::kAligned ? "power of two"
                                                              : "number",
      " of the ", num_ranks, " GPUs, so every sample runs on one GPU alone");
}

absl::StatusOr<planner::PublishedCosts> LoadCosts(const std::string& name) {
  const std::string costs = name.empty() ? kDefaultCosts : name;
  auto published = planner::FindPublishedCosts(costs);
  if (published.ok()) return published;
  const absl::StatusOr<std::string> text =
      ReadWholeFile(costs, kMaxCostFileBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::InvalidArgumentError(absl::StrCat(published.status().message(),
                                                   "; nor is there such a "
                                                   "file"));
  }
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  EVENSTEP_ASSIGN_OR_RETURN(planner::PublishedCosts parsed,
                            planner::ParseCosts(*text, costs));
  if (parsed.name.empty()) parsed.name = costs;
  if (parsed.source.empty()) parsed.source = "a file";
  return parsed;
}

absl::StatusOr<planner::PublishedCosts> LoadCostsFor(
    const PlanSetup& setup, const StepLengths& lengths) {
  const bool by_clips = setup.costs.empty() && lengths.has_clips;
  EVENSTEP_ASSIGN_OR_RETURN(
      planner::PublishedCosts costs,
      LoadCosts(by_clips ? kDefaultVideoCosts : setup.costs));
  if (costs.model.is_video()) {
    EVENSTEP_RETURN_IF_ERROR(CheckAllHaveFrames(lengths, costs.name));
    return costs;
  }
  if (!lengths.has_clips) return costs;
  return absl::InvalidArgumentError(absl::StrCat(
      lengths.origin, " has clips, and --costs ", costs.name,
      " are of a text model, which knows no frames; name a video model, such "
      "as --costs ",
      kDefaultVideoCosts));
}

absl::StatusOr<std::vector<int>> NodesOf(const PlanSetup& setup) {
  std::vector<int> nodes = setup.gpus_per_node;
  for (int gpus : nodes) {
    if (gpus >= 1 && gpus <= planner::kMaxRanks) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a node has ", gpus, " GPUs; from 1 to ", planner::kMaxRanks));
  }
  if (setup.num_gpus < 0 || setup.num_gpus > planner::kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat(setup.num_gpus, " GPUs; from 1 to ", planner::kMaxRanks));
  }
  const int64_t listed =
      std::accumulate(nodes.begin(), nodes.end(), int64_t{0});
  if (nodes.size() > 1) {
    if (setup.num_gpus == 0 || listed == setup.num_gpus) return nodes;
    return absl::InvalidArgumentError(
        absl::StrCat("the nodes have ", absl::StrJoin(nodes, " + "), " = ",
                     listed, " GPUs, not ", setup.num_gpus));
  }
  const int per_node = nodes.empty() ? kDefaultGpusPerNode : nodes[0];
  int left = setup.num_gpus == 0 ? per_node : setup.num_gpus;
  nodes.clear();
  for (; left > 0; left -= per_node) nodes.push_back(std::min(left, per_node));
  return nodes;
}

absl::StatusOr<PlanRequest> BuildRequest(
    const PlanSetup& setup, const planner::PublishedCosts& costs,
    const std::vector<data::LengthDraw>& samples) {
  EVENSTEP_RETURN_IF_ERROR(CheckNumbers(setup));
  PlanRequest request;
  AddSamples(samples, costs.model.is_video(), &request);
  EVENSTEP_ASSIGN_OR_RETURN(request.cluster.ranks_per_node, NodesOf(setup));
  EVENSTEP_RETURN_IF_ERROR(AddRankSpeeds(setup.rank_speed, &request.cluster));
  request.run.max_length = setup.max_length;
  request.model = costs.model;
  if (!setup.degrees.empty()) request.model.forced_degrees = setup.degrees;
  request.time = costs.time;
  if (setup.micro_batch_fixed_ms >= 0) {
    request.time.micro_batch_fixed_ns =
        std::llround(setup.micro_batch_fixed_ms * 1e6);
  }
  request.memory = costs.memory;
  request.options.sync = setup.sync;
  request.options.blocks = setup.blocks;
  request.options.max_groups_per_rank = setup.max_groups_per_rank;
  if (setup.work_budget > 0) request.options.work_budget = setup.work_budget;
  AddRecompute(setup, &request);
  EVENSTEP_RETURN_IF_ERROR(SetTokensPerGpu(setup, &request));
  EVENSTEP_RETURN_IF_ERROR(planner::ValidateRequest(request));
  EVENSTEP_RETURN_IF_ERROR(CheckDegrees(setup, request));
  return request;
}

}  // namespace evenstep::plan
