#include "planner/validate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/degrees.h"

namespace evenstep::planner {
namespace {

template <typename Number>
absl::Status InRange(const std::string& field, Number value, Number low,
                     Number high) {
  // Written so that NaN is refused too.
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", value, "; it must be from ", low, " to ", high));
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
  for (size_t rank = 0; rank < cluster.rank_speed.size(); ++rank) {
    EVENSTEP_RETURN_IF_ERROR(InRange(absl::StrCat("speed of rank ", rank),
                                     cluster.rank_speed[rank], kMinRankSpeed,
                                     kMaxRankSpeed));
  }
  return absl::OkStatus();
}

absl::Status ValidateModel(const ModelShape& model, const Options& options) {
  EVENSTEP_RETURN_IF_ERROR(
      InRange("model.num_layers", model.num_layers, 1, kMaxLayers));
  EVENSTEP_RETURN_IF_ERROR(InRange("model.heads", model.heads, 1, kMaxHeads));
  EVENSTEP_RETURN_IF_ERROR(
      InRange("model.kv_heads", model.kv_heads, 1, model.heads));
  for (int degree : model.forced_degrees) {
    EVENSTEP_RETURN_IF_ERROR(
        InRange("model.forced_degrees entry", degree, 1, kMaxRanks));
  }
  if (options.recompute_choices.size() > kMaxRecomputeChoices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.recompute_choices has ", options.recompute_choices.size(),
        " entries; at most ", kMaxRecomputeChoices));
  }
  for (int layers : options.recompute_choices) {
    EVENSTEP_RETURN_IF_ERROR(InRange("options.recompute_choices entry", layers,
                                     0, model.num_layers));
  }
  return InRange("options.recompute_layers", options.recompute_layers, 0,
                 model.num_layers);
}

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
  const std::pair<const char*, int64_t> per_token[] = {
      {"memory.layer_bytes_per_token", memory.layer_bytes_per_token},
      {"memory.kept_bytes_per_token", memory.kept_bytes_per_token},
      {"memory.head_bytes_per_token", memory.head_bytes_per_token}};
  for (const auto& [name, bytes] : per_token) {
    EVENSTEP_RETURN_IF_ERROR(
        InRange<int64_t>(name, bytes, 0, kMaxBytesPerToken));
  }
  for (int mode : RecomputeModes(request)) {
    if (TokensPerRank(request, mode) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "memory.activation_bytes is ", memory.activation_bytes,
        ", less than one token takes with ", mode, " layers recomputed"));
  }
  return absl::OkStatus();
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

absl::Status ValidateTime(const TimeModel& time) {
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(
      "time.micro_batch_fixed_ns", time.micro_batch_fixed_ns, 0, kMaxFixedNs));
  EVENSTEP_RETURN_IF_ERROR(InRange("time.linear_ns_per_token",
                                   time.linear_ns_per_token, 0.0,
                                   kMaxLinearNsPerToken));
  EVENSTEP_RETURN_IF_ERROR(InRange("time.quadratic_ns_per_token2",
                                   time.quadratic_ns_per_token2, 0.0,
                                   kMaxQuadraticNsPerToken2));
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>("time.collective_latency_ns",
                                            time.collective_latency_ns, 0,
                                            kMaxFixedNs));
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(
      "time.step_fixed_ns", time.step_fixed_ns, 0, kMaxFixedNs));
  int last_degree = 0;
  for (const auto& entry : time.collective) {
    if (entry.degree <= last_degree) {
      return absl::InvalidArgumentError(
          absl::StrCat("time.collective lists degree ", entry.degree, " after ",
                       last_degree, "; degrees must ascend from 1"));
    }
    last_degree = entry.degree;
    EVENSTEP_RETURN_IF_ERROR(
        InRange(absl::StrCat("time.collective of degree ", entry.degree),
                entry.ns_per_token, 0.0, kMaxLinearNsPerToken));
  }
  return absl::OkStatus();
}

// Refuses costs whose sums could leave 63 bits. Long doubles are fine here: the
// answer is compared with a limit that has room to spare.
absl::Status ValidateTotalTime(const PlanRequest& request) {
  const TimeModel& time = request.time;
  const long double num_ranks = request.cluster.num_ranks();
  long double tokens = 0, squares = 0, comm_ns_per_token = 0, speed = 1;
  for (const Sample& sample : request.samples) {
    tokens += sample.length + num_ranks;  // padding included
    squares += static_cast<long double>(sample.length) * sample.length;
  }
  for (const auto& entry : time.collective) {
    comm_ns_per_token =
        std::max<long double>(comm_ns_per_token, entry.ns_per_token);
  }
  for (double rank_speed : request.cluster.rank_speed) {
    speed = std::min<long double>(speed, rank_speed);
  }
  const long double launch_ns =
      time.micro_batch_fixed_ns +
      12.0L * request.model.num_layers * time.collective_latency_ns;
  // Work is shared by the ranks of a block; fixed costs are paid by each.
  const long double work_ns =
      2 * (tokens * (time.linear_ns_per_token + comm_ns_per_token) +
           squares * time.quadratic_ns_per_token2);
  const long double fixed_ns =
      num_ranks * (request.samples.size() * launch_ns + time.step_fixed_ns);
  const long double rank_ns = (work_ns + fixed_ns) / speed;
  if (rank_ns <= kMaxRankNs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the costs are out of range: the samples may take up to ",
                   static_cast<double>(rank_ns), " ns of rank-time on ",
                   request.cluster.num_ranks(), " ranks, above ", kMaxRankNs));
}

}  // namespace

absl::Status ValidateRequest(const PlanRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(ValidateSamples(request));
  EVENSTEP_RETURN_IF_ERROR(ValidateRun(request.run));
  EVENSTEP_RETURN_IF_ERROR(ValidateCluster(request.cluster));
  EVENSTEP_RETURN_IF_ERROR(ValidateModel(request.model, request.options));
  EVENSTEP_RETURN_IF_ERROR(ValidateTime(request.time));
  EVENSTEP_RETURN_IF_ERROR(ValidateMemory(request));
  EVENSTEP_RETURN_IF_ERROR(ValidateOptions(request.options, request.cluster));
  return ValidateTotalTime(request);
}

}  // namespace evenstep::planner
