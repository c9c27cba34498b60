#include "planner/validate_costs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/memory_model.h"
#include "planner/number_range.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

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

using CollectiveCosts = std::vector<TimeModel::CollectiveCost>;

// Of the entries' costs see ValidateTime.
absl::Status ValidateDegrees(const std::string& field,
                             const CollectiveCosts& costs) {
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(absl::StrCat("entries of ", field),
                                            costs.size(), 0, kMaxRanks));
  int last_degree = 0;
  for (const auto& entry : costs) {
    if (entry.degree <= last_degree) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " lists degree ", entry.degree, " after ",
                       last_degree, "; degrees must ascend from 1"));
    }
    last_degree = entry.degree;
  }
  return absl::OkStatus();
}

LayerTime TextTime(const TimeModel& time) {
  return {time.linear_ns_per_token, time.quadratic_ns_per_token2,
          time.attention_ns_per_token, time.sharded_attention_ns_per_token};
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

}  // namespace

absl::Status ValidateTime(const TimeModel& time) {
  const std::pair<const char*, const CollectiveCosts*> lists[] = {
      {"time.collective", &time.collective},
      {"time.collective_across", &time.collective_across},
      {"time.gather", &time.gather},
      {"time.gather_across", &time.gather_across}};
  for (const auto& [name, costs] : lists) {
    EVENSTEP_RETURN_IF_ERROR(ValidateDegrees(name, *costs));
  }
  absl::Status status;
  VisitCosts(time, [&status](const auto& name, auto cost, auto highest) {
    status.Update(
        InRange<decltype(cost)>(absl::StrCat("time.", name), cost, 0, highest));
  });
  return status;
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

// Long doubles are fine here: the answer is compared with a limit that has room
// to spare.
absl::Status ValidateTotalTime(const PlanRequest& request) {
  const TimeModel& time = request.time;
  const bool is_video = request.model.is_video();
  const long double num_ranks = request.cluster.num_ranks();
  const MostWork most = MostWorkOf(request);
  const LayerTime kinds[] = {is_video ? time.spatial : TextTime(time),
                             is_video ? time.temporal : LayerTime()};
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

}  // namespace evenstep::planner
