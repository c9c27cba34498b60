#include "planner/validate.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/limits.h"

namespace evenstep::planner {
namespace {

// The shape is that of the length, for a model that needs one.
absl::Status ValidateShape(const Sample& sample, bool is_video) {
  const int64_t sides[] = {sample.frames, sample.height, sample.width};
  if (std::all_of(sides, sides + 3, [](int64_t n) { return n == 0; })) {
    if (!is_video) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("sample ", sample.id,
                     " has no frames, and the model has spatial and "
                     "temporal layers"));
  }
  __int128 product = 1;
  for (int64_t side : sides) {
    if (side < 1 || side > kMaxLengthTokens) product = 0;
    product *= side;
  }
  if (product == sample.length) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "sample ", sample.id, " has ", sample.frames, " frames of ",
      sample.height, " x ", sample.width,
      " patches, which are not its length of ", sample.length, " tokens"));
}

absl::Status ValidateSample(const Sample& sample, const RunFacts& run) {
  if (sample.length < 1 || sample.length > kMaxLengthTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample ", sample.id, " has a length of ", sample.length,
                     " tokens; it must be from 1 to ", kMaxLengthTokens));
  }
  if (sample.trained_tokens < 0 || sample.trained_tokens > sample.length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sample ", sample.id, " has ", sample.trained_tokens,
        " trained tokens; it must be from 0 to its length, ", sample.length));
  }
  if (run.max_length > 0 && sample.length > run.max_length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sample ", sample.id, " has ", sample.length,
        " tokens, more than the run's max_length of ", run.max_length));
  }
  return absl::OkStatus();
}

absl::Status ValidateIds(const std::vector<Sample>& samples) {
  std::vector<int64_t> ids;
  ids.reserve(samples.size());
  for (const Sample& sample : samples) ids.push_back(sample.id);
  std::sort(ids.begin(), ids.end());
  auto twin = std::adjacent_find(ids.begin(), ids.end());
  if (twin == ids.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sample id ", *twin, " occurs more than once"));
}

absl::Status ValidateSamples(const PlanRequest& request) {
  const auto& samples = request.samples;
  EVENSTEP_RETURN_IF_ERROR(
      InRange<int64_t>("number of samples", samples.size(), 1, kMaxSamples));
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(
      "run.max_length", request.run.max_length, 0, kMaxLengthTokens));
  int64_t total_tokens = 0;
  int64_t trained_tokens = 0;
  for (const Sample& sample : samples) {
    EVENSTEP_RETURN_IF_ERROR(ValidateSample(sample, request.run));
    EVENSTEP_RETURN_IF_ERROR(ValidateShape(sample, request.model.is_video()));
    total_tokens += sample.length;
    trained_tokens += sample.trained_tokens;
  }
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>("the step's number of tokens",
                                            total_tokens, 1, kMaxTotalTokens));
  if (trained_tokens == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no token of the step's ", samples.size(),
                     " samples is trained, so its gradient has no divisor"));
  }
  return ValidateIds(samples);
}

absl::Status ValidateCluster(const Cluster& cluster) {
  int64_t num_ranks = 0;
  for (int ranks : cluster.ranks_per_node) {
    EVENSTEP_RETURN_IF_ERROR(InRange("ranks of a node (cluster.ranks_per_node)",
                                     ranks, 1, kMaxRanks));
    num_ranks += ranks;
  }
  EVENSTEP_RETURN_IF_ERROR(
      InRange<int64_t>("number of ranks", num_ranks, 1, kMaxRanks));
  if (cluster.rank_speed.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(cluster.rank_speed.size()) != num_ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.rank_speed has ", cluster.rank_speed.size(),
                     " entries for ", num_ranks, " ranks"));
  }
  return ValidateRankSpeeds(cluster.rank_speed);
}

absl::Status ValidateDegreeList(const std::string& field,
                                const std::vector<int>& degrees) {
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(absl::StrCat("entries of ", field),
                                            degrees.size(), 0, kMaxRanks));
  for (int degree : degrees) {
    EVENSTEP_RETURN_IF_ERROR(
        InRange(absl::StrCat(field, " entry"), degree, 1, kMaxRanks));
  }
  return absl::OkStatus();
}

absl::Status ValidateSpModes(const ModelShape& model) {
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>("entries of model.sp_modes",
                                            model.sp_modes.size(), 0, 4));
  for (SpMode mode : model.sp_modes) {
    const bool known = model.is_video()
                           ? mode == SpMode::kUlysses || mode == SpMode::kSwitch
                           : mode == SpMode::kUlysses ||
                                 mode == SpMode::kKvGather ||
                                 mode == SpMode::kBoth;
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.sp_modes has an entry ", static_cast<int>(mode),
                     ", which is not a mode of a ",
                     model.is_video() ? "video" : "text", " model"));
  }
  return InRange("model.max_switch_degree", model.max_switch_degree, 0,
                 kMaxRanks);
}

absl::Status ValidateModel(const ModelShape& model) {
  EVENSTEP_RETURN_IF_ERROR(
      InRange("model.num_layers", model.num_layers, 1, kMaxLayers));
  EVENSTEP_RETURN_IF_ERROR(
      InRange("model.spatial_layers", model.spatial_layers, 0, kMaxLayers));
  EVENSTEP_RETURN_IF_ERROR(
      InRange("model.temporal_layers", model.temporal_layers, 0, kMaxLayers));
  EVENSTEP_RETURN_IF_ERROR(InRange("model.heads", model.heads, 1, kMaxHeads));
  EVENSTEP_RETURN_IF_ERROR(
      InRange("model.kv_heads", model.kv_heads, 1, model.heads));
  if (model.heads % model.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.kv_heads is ", model.kv_heads, ", which the ",
                     model.heads, " heads are no multiple of"));
  }
  EVENSTEP_RETURN_IF_ERROR(
      ValidateDegreeList("model.forced_degrees", model.forced_degrees));
  return ValidateSpModes(model);
}

absl::Status ValidateRecompute(const std::string& field,
                               const LayerCounts& recompute,
                               const LayerCounts& layers) {
  EVENSTEP_RETURN_IF_ERROR(InRange(field, recompute[0], 0, layers[0]));
  return InRange(absl::StrCat(field, " of temporal layers"), recompute[1], 0,
                 layers[1]);
}

absl::Status ValidateRecomputes(const ModelShape& model,
                                const Options& options) {
  if (options.recompute_choices.size() > kMaxRecomputeChoices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.recompute_choices has ", options.recompute_choices.size(),
        " entries; at most ", kMaxRecomputeChoices));
  }
  for (const LayerCounts& layers : options.recompute_choices) {
    EVENSTEP_RETURN_IF_ERROR(ValidateRecompute(
        "options.recompute_choices entry", layers, model.layers()));
  }
  return ValidateRecompute("options.recompute_layers", options.recompute_layers,
                           model.layers());
}

absl::Status ValidateOptions(const Options& options, const Cluster& cluster) {
  if (options.sync != SyncMode::kPerStep &&
      options.sync != SyncMode::kPerRound) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.sync is unknown: ", static_cast<int>(options.sync)));
  }
  if (options.blocks == BlockShape::kContiguous) {
    EVENSTEP_RETURN_IF_ERROR(InRange("number of ranks with contiguous blocks",
                                     cluster.num_ranks(), 1,
                                     kMaxContiguousRanks));
  } else if (options.blocks != BlockShape::kAligned) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.blocks is unknown: ", static_cast<int>(options.blocks)));
  }
  EVENSTEP_RETURN_IF_ERROR(
      ValidateDegreeList("options.degrees", options.degrees));
  EVENSTEP_RETURN_IF_ERROR(
      InRange("options.static_degree", options.static_degree, 0, kMaxRanks));
  EVENSTEP_RETURN_IF_ERROR(InRange("options.max_groups_per_rank",
                                   options.max_groups_per_rank, 0, kMaxRanks));
  return InRange<int64_t>("options.work_budget", options.work_budget, 0,
                          kMaxWorkBudget);
}

absl::Status ValidateRun(const RunFacts& run) {
  int64_t last_bound = 0;
  for (int64_t bound : run.bucket_bounds) {
    if (bound <= last_bound || bound > kMaxLengthTokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("run.bucket_bounds lists ", bound, " after ", last_bound,
                       "; bounds must ascend from 1 to ", kMaxLengthTokens));
    }
    last_bound = bound;
  }
  return absl::OkStatus();
}

absl::Status ValidateCostCells(const PlanRequest& request) {
  const auto num_samples = static_cast<int64_t>(request.samples.size());
  const auto num_classes = static_cast<int64_t>(BlockClasses(request).size());
  const auto num_modes = static_cast<int64_t>(RecomputeModes(request).size());
  if (num_samples * num_classes * num_modes <= kMaxCostCells) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      num_samples, " samples at ", num_classes, " degrees in ", num_modes,
      " modes of recompute are too many to plan; the product may be ",
      kMaxCostCells));
}

// Without costs all plans take the same time, so that none is better.
absl::Status ValidateSomeCost(const PlanRequest& request) {
  if (!IsFree(request.time, request.model)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "time: every cost of a ", request.model.is_video() ? "video" : "text",
      " model is 0, so no plan is better than another; give its costs, "
      "NominalCosts(model) where none are measured"));
}

using CollectiveCosts = std::vector<TimeModel::CollectiveCost>;

absl::Status ValidateBytes(const MemoryModel& memory, int kv_heads) {
  const std::pair<const char*, int64_t> per_token[] = {
      {"memory.layer_bytes_per_token", memory.layer_bytes_per_token},
      {"memory.kept_bytes_per_token", memory.kept_bytes_per_token},
      {"memory.backward_bytes_per_token", memory.backward_bytes_per_token},
      {"memory.head_bytes_per_token", memory.head_bytes_per_token},
      {"memory.spatial.layer_bytes_per_token",
       memory.spatial.layer_bytes_per_token},
      {"memory.spatial.kept_bytes_per_token",
       memory.spatial.kept_bytes_per_token},
      {"memory.spatial.backward_bytes_per_token",
       memory.spatial.backward_bytes_per_token},
      {"memory.temporal.layer_bytes_per_token",
       memory.temporal.layer_bytes_per_token},
      {"memory.temporal.kept_bytes_per_token",
       memory.temporal.kept_bytes_per_token},
      {"memory.temporal.backward_bytes_per_token",
       memory.temporal.backward_bytes_per_token}};
  for (const auto& [name, bytes] : per_token) {
    EVENSTEP_RETURN_IF_ERROR(
        InRange<int64_t>(name, bytes, 0, kMaxBytesPerToken));
  }
  // Copies may be as many as there are query heads.
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(
      "memory.gathered_bytes_per_token", memory.gathered_bytes_per_token, 0,
      std::min(kMaxBytesPerToken, kv_heads * kMaxKvHeadBytesPerToken)));
  return InRange<int64_t>("memory.kv_head_bytes_per_token",
                          memory.kv_head_bytes_per_token, 0,
                          kMaxKvHeadBytesPerToken);
}

long double Dearest(const CollectiveCosts& inside,
                    const CollectiveCosts& across) {
  double dearest = 0;
  for (const CollectiveCosts* costs : {&inside, &across}) {
    for (const auto& entry : *costs) {
      dearest = std::max(dearest, entry.ns_per_token);
    }
  }
  return dearest;
}

// What the samples come to at the degree that pads them most.
struct MostWork {
  long double tokens = 0;
  long double pairs[kMaxLayerKinds] = {0, 0};
};

MostWork MostWorkOf(const PlanRequest& request) {
  const ModelShape& model = request.model;
  const long double num_ranks = request.cluster.num_ranks();
  MostWork most;
  for (const Sample& sample : request.samples) {
    const long double length = sample.length;
    if (model.is_video()) {
      most.tokens += 2 * length + num_ranks;
      most.pairs[0] += 2 * length * sample.patches();
      most.pairs[1] += 2 * length * sample.frames;
      continue;
    }
    most.tokens += length + (model.sp_modes.empty() ? 1 : 2) * num_ranks;
    most.pairs[0] += length * length;
  }
  return most;
}

// Also that every choice of recompute leaves room for a token.
absl::Status ValidateMemory(const PlanRequest& request) {
  const MemoryModel& memory = request.memory;
  const bool by_bytes =
      memory.tokens_per_rank == 0 && memory.activation_bytes != 0;
  EVENSTEP_RETURN_IF_ERROR(
      InRange<int64_t>("memory.tokens_per_rank", memory.tokens_per_rank,
                       by_bytes ? 0 : 1, kMaxTokensPerRank));
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>("memory.activation_bytes",
                                            memory.activation_bytes, 0,
                                            kMaxActivationBytes));
  EVENSTEP_RETURN_IF_ERROR(ValidateBytes(memory, request.model.kv_heads));
  for (const LayerCounts& mode : RecomputeModes(request)) {
    if (TokensPerRank(request, mode) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("memory.activation_bytes is ", memory.activation_bytes,
                     ", less than one token takes with ", mode.total(),
                     " layers recomputed"));
  }
  return absl::OkStatus();
}

// Refuses costs whose sums could leave 63 bits. Long doubles are fine: the
// answer is compared with a limit that has room to spare.
absl::Status ValidateTotalTime(const PlanRequest& request) {
  const TimeModel& time = request.time;
  const long double num_ranks = request.cluster.num_ranks();
  const MostWork most = MostWorkOf(request);
  const LayerTimes kinds = time.layers(request.model.is_video());
  // Divided by the degree: paid once by all ranks together. Not divided: paid
  // by each.
  long double shared_ns_per_token =
      time.head_ns_per_token + Dearest(time.collective, time.collective_across);
  long double whole_ns_per_token = Dearest(time.gather, time.gather_across);
  long double work_ns = 0;
  for (int kind = 0; kind < kMaxLayerKinds; ++kind) {
    shared_ns_per_token += kinds[kind].linear_ns_per_token;
    whole_ns_per_token += kinds[kind].sharded_attention_ns_per_token;
    work_ns += most.pairs[kind] * kinds[kind].quadratic_ns_per_token2;
  }
  work_ns +=
      most.tokens * (shared_ns_per_token + num_ranks * whole_ns_per_token);
  const long double launch_ns = time.micro_batch_fixed_ns +
                                18.0L * request.model.layers().total() *
                                    std::max(time.collective_latency_ns,
                                             time.collective_latency_across_ns);
  const long double fixed_ns =
      num_ranks * (request.samples.size() * launch_ns + time.step_fixed_ns);
  long double speed = 1;
  for (double rank_speed : request.cluster.rank_speed) {
    speed = std::min<long double>(speed, rank_speed);
  }
  const long double rank_ns = (2 * work_ns + fixed_ns) / speed;
  if (rank_ns <= kMaxRankNs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the costs are out of range: the samples may take up to ",
                   static_cast<double>(rank_ns), " ns of rank-time on ",
                   request.cluster.num_ranks(), " ranks, above ", kMaxRankNs));
}

}  // namespace

absl::Status ValidateRankSpeeds(const std::vector<double>& speeds) {
  for (size_t rank = 0; rank < speeds.size(); ++rank) {
    EVENSTEP_RETURN_IF_ERROR(InRange(absl::StrCat("speed of rank ", rank),
                                     speeds[rank], kMinRankSpeed,
                                     kMaxRankSpeed));
  }
  return absl::OkStatus();
}

absl::Status ValidateRequest(const PlanRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(ValidateSamples(request));
  EVENSTEP_RETURN_IF_ERROR(ValidateRun(request.run));
  EVENSTEP_RETURN_IF_ERROR(ValidateCluster(request.cluster));
  EVENSTEP_RETURN_IF_ERROR(ValidateModel(request.model));
  EVENSTEP_RETURN_IF_ERROR(ValidateRecomputes(request.model, request.options));
  EVENSTEP_RETURN_IF_ERROR(ValidateTime(request.time));
  EVENSTEP_RETURN_IF_ERROR(ValidateSomeCost(request));
  EVENSTEP_RETURN_IF_ERROR(ValidateMemory(request));
  EVENSTEP_RETURN_IF_ERROR(ValidateOptions(request.options, request.cluster));
  EVENSTEP_RETURN_IF_ERROR(ValidateTotalTime(request));
  return ValidateCostCells(request);
}

}  // namespace evenstep::planner
