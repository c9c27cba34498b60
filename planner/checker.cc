// CheckPlan: a second opinion on every plan before it is sent. It shares no
// code with the policies, the evaluation or the bounds: the rules and formulas
// of 10-planning are stated here once more, from the request alone, and in
// plain order instead of fast order. Do not merge the two.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

using Wide = __int128;

absl::Status Broken(const std::string& what) {
  return absl::InternalError(absl::StrCat("the plan is wrong: ", what));
}

std::string Name(size_t order, const MicroBatch& batch) {
  return absl::StrCat("micro-batch ", order, " (ranks ", batch.first_rank, "..",
                      int64_t{batch.first_rank} + batch.degree - 1, ")");
}

int WorldOf(const PlanRequest& request) {
  int world = 0;
  for (int ranks : request.cluster.ranks_per_node) world += ranks;
  return world;
}

bool DegreeIsLegal(const ModelShape& model, int degree) {
  if (degree == 1) return true;
  if (!model.forced_degrees.empty()) {
    for (int forced : model.forced_degrees) {
      if (forced == degree) return true;
    }
    return false;
  }
  const bool kv_split = model.kv_heads % degree == 0;
  const bool kv_replicated = degree % model.kv_heads == 0;
  return model.heads % degree == 0 && (kv_split || kv_replicated);
}

absl::Status CheckBlock(const PlanRequest& request, const std::string& name,
                        const MicroBatch& batch) {
  const int world = WorldOf(request);
  if (batch.degree < 1 || batch.degree > world || batch.first_rank < 0 ||
      batch.first_rank > world - batch.degree) {
    return Broken(absl::StrCat(name, " leaves the ", world, " ranks"));
  }
  if (!DegreeIsLegal(request.model, batch.degree)) {
    return Broken(absl::StrCat(name, " has degree ", batch.degree,
                               ", which the heads do not allow"));
  }
  if (request.options.blocks == BlockShape::kContiguous) {
    return absl::OkStatus();
  }
  const bool power_of_two = (batch.degree & (batch.degree - 1)) == 0;
  const bool aligned = power_of_two && batch.first_rank % batch.degree == 0;
  if (!aligned && batch.degree != world) {
    return Broken(absl::StrCat(name, " is not an aligned block"));
  }
  return absl::OkStatus();
}

// Law 1: every sample exactly once.
absl::Status CheckSamples(const PlanRequest& request, const Plan& plan) {
  std::vector<int> times(request.samples.size(), 0);
  for (size_t k = 0; k < plan.micro_batches.size(); ++k) {
    const MicroBatch& batch = plan.micro_batches[k];
    if (batch.samples.empty()) {
      return Broken(absl::StrCat(Name(k, batch), " is empty"));
    }
    for (int index : batch.samples) {
      if (index < 0 || index >= static_cast<int>(times.size())) {
        return Broken(absl::StrCat(Name(k, batch), " holds sample index ",
                                   index, " of ", times.size()));
      }
      ++times[index];
    }
  }
  for (size_t index = 0; index < times.size(); ++index) {
    if (times[index] == 1) continue;
    return Broken(absl::StrCat("sample ", request.samples[index].id, " runs ",
                               times[index], " times"));
  }
  return absl::OkStatus();
}

int64_t RealTokens(const PlanRequest& request, const MicroBatch& batch) {
  int64_t tokens = 0;
  for (int index : batch.samples) tokens += request.samples[index].length;
  return tokens;
}

int64_t TokensARankHolds(const PlanRequest& request, int64_t redone) {
  const MemoryModel& memory = request.memory;
  if (memory.tokens_per_rank != 0) return memory.tokens_per_rank;
  Wide bytes = memory.head_bytes_per_token;
  for (int layer = 0; layer < request.model.num_layers; ++layer) {
    bytes += layer < redone ? memory.kept_bytes_per_token
                            : memory.layer_bytes_per_token;
  }
  if (redone > 0) bytes += memory.layer_bytes_per_token;
  if (bytes == 0) bytes = 1;
  return std::min<int64_t>(
      kMaxTokensPerRank, static_cast<int64_t>(memory.activation_bytes / bytes));
}

bool RecomputeIsAllowed(const Options& options, int layers) {
  for (int choice : options.recompute_choices) {
    if (choice == layers) return true;
  }
  return options.recompute_layers == layers;
}

absl::Status CheckTokens(const PlanRequest& request, const std::string& name,
                         const MicroBatch& batch) {
  int64_t padded = RealTokens(request, batch);
  if (padded % batch.degree != 0)
    padded += batch.degree - padded % batch.degree;
  if (batch.padded_tokens != padded) {
    return Broken(absl::StrCat(name, " states ", batch.padded_tokens,
                               " padded tokens; they are ", padded));
  }
  if (!RecomputeIsAllowed(request.options, batch.recompute_layers)) {
    return Broken(absl::StrCat(name, " recomputes ", batch.recompute_layers,
                               " layers, which was not asked for"));
  }
  const int64_t holds = TokensARankHolds(request, batch.recompute_layers);
  if (padded / batch.degree > holds) {
    return Broken(absl::StrCat(name, " needs ", padded / batch.degree,
                               " tokens per rank of ", holds));
  }
  return absl::OkStatus();
}

Wide Fixed24(double coefficient) {
  return std::llround(coefficient * 16777216.0);
}

// beta(d): the first entry of at least `degree`, else the last one.
Wide Beta24(const TimeModel& time, int degree) {
  double chosen = 0;
  for (const auto& entry : time.collective) {
    chosen = entry.ns_per_token;
    if (entry.degree >= degree) break;
  }
  return Fixed24(chosen);
}

int64_t ExpectedNs(const PlanRequest& request, const MicroBatch& batch) {
  const TimeModel& time = request.time;
  const Wide layers = request.model.num_layers;
  const Wide redone = batch.recompute_layers;
  const Wide tokens = batch.padded_tokens;
  Wide squares = 0;
  for (int index : batch.samples) {
    squares +=
        Wide{request.samples[index].length} * request.samples[index].length;
  }
  const Wide forward_backward =
      Fixed24(time.quadratic_ns_per_token2) * squares +
      Fixed24(time.linear_ns_per_token) * tokens;
  const Wide with_recompute =
      forward_backward * (3 * layers + redone) / (3 * layers);
  Wide total = time.micro_batch_fixed_ns +
               with_recompute / (Wide{batch.degree} * 16777216);
  if (batch.degree > 1) {
    total += (8 * layers + 4 * redone) * time.collective_latency_ns;
    total += Beta24(time, batch.degree) * tokens * (2 * layers + redone) /
             (2 * layers * batch.degree * 16777216);
  }
  const auto& speeds = request.cluster.rank_speed;
  if (speeds.empty()) return static_cast<int64_t>(total);
  double slowest = speeds[batch.first_rank];
  for (int rank = 0; rank < batch.degree; ++rank) {
    slowest = std::fmin(slowest, speeds[batch.first_rank + rank]);
  }
  const Wide speed = std::llround(slowest * 1048576.0);
  const Wide scaled = total * 1048576;
  return static_cast<int64_t>(scaled / speed + (scaled % speed != 0 ? 1 : 0));
}

absl::Status CheckMicroBatches(const PlanRequest& request, const Plan& plan) {
  for (size_t k = 0; k < plan.micro_batches.size(); ++k) {
    const MicroBatch& batch = plan.micro_batches[k];
    const std::string name = Name(k, batch);
    EVENSTEP_RETURN_IF_ERROR(CheckBlock(request, name, batch));
    EVENSTEP_RETURN_IF_ERROR(CheckTokens(request, name, batch));
    const int64_t expected_ns = ExpectedNs(request, batch);
    if (batch.predicted_ns != expected_ns) {
      return Broken(absl::StrCat(name, " states ", batch.predicted_ns,
                                 " ns; the model says ", expected_ns));
    }
  }
  return absl::OkStatus();
}

// Rounds count up from 0 without a gap, and blocks of a round are disjoint.
absl::Status CheckRounds(const PlanRequest& request, const Plan& plan) {
  int round = 0;
  std::vector<bool> taken(WorldOf(request), false);
  for (size_t k = 0; k < plan.micro_batches.size(); ++k) {
    const MicroBatch& batch = plan.micro_batches[k];
    const bool next = k > 0 && batch.round == round + 1;
    if (request.options.sync == SyncMode::kPerStep
            ? batch.round != 0
            : batch.round != round && !next) {
      return Broken(absl::StrCat(Name(k, batch), " stands in round ",
                                 batch.round, " after round ", round));
    }
    if (request.options.sync == SyncMode::kPerStep) continue;
    if (next) taken.assign(taken.size(), false);
    round = batch.round;
    for (int rank = 0; rank < batch.degree; ++rank) {
      if (taken[batch.first_rank + rank]) {
        return Broken(absl::StrCat(Name(k, batch), " is not the only one of ",
                                   "rank ", batch.first_rank + rank,
                                   " in round ", round));
      }
      taken[batch.first_rank + rank] = true;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroupsPerRank(const PlanRequest& request, const Plan& plan) {
  const int most = request.options.max_groups_per_rank;
  if (most == 0) return absl::OkStatus();
  std::vector<std::set<std::pair<int, int>>> groups(WorldOf(request));
  for (const MicroBatch& batch : plan.micro_batches) {
    if (batch.degree == 1) continue;
    for (int rank = 0; rank < batch.degree; ++rank) {
      auto& own = groups[batch.first_rank + rank];
      own.insert({batch.first_rank, batch.degree});
      if (static_cast<int>(own.size()) <= most) continue;
      return Broken(absl::StrCat("rank ", batch.first_rank + rank,
                                 " belongs to more than ", most, " groups"));
    }
  }
  return absl::OkStatus();
}

bool Near(double a, double b) { return std::abs(a - b) <= 1e-9; }

// Runs the plan on an idle cluster and compares what it says of itself.
absl::Status CheckStep(const PlanRequest& request, const Plan& plan) {
  const int world = WorldOf(request);
  const int64_t step_fixed_ns = request.time.step_fixed_ns;
  std::vector<int64_t> free_ns(world, 0);
  std::vector<int64_t> busy_ns(world, step_fixed_ns);
  int64_t last_ns = 0, round_start_ns = 0;
  int round = 0;
  for (const MicroBatch& batch : plan.micro_batches) {
    if (batch.round != round) {
      round = batch.round;
      round_start_ns = last_ns;
    }
    int64_t start_ns = round_start_ns;
    for (int rank = 0; rank < batch.degree; ++rank) {
      start_ns = std::max(start_ns, free_ns[batch.first_rank + rank]);
    }
    for (int rank = 0; rank < batch.degree; ++rank) {
      free_ns[batch.first_rank + rank] = start_ns + batch.predicted_ns;
      busy_ns[batch.first_rank + rank] += batch.predicted_ns;
    }
    last_ns = std::max(last_ns, start_ns + batch.predicted_ns);
  }
  const int64_t step_ns = last_ns + step_fixed_ns;
  if (plan.predicted_step_ns != step_ns) {
    return Broken(absl::StrCat("it states a step of ", plan.predicted_step_ns,
                               " ns; it takes ", step_ns));
  }
  if (plan.rank_busy_ns != busy_ns) {
    return Broken("the busy times of the ranks do not add up");
  }
  double share = 0;
  for (int64_t busy : busy_ns) {
    if (step_ns > 0) share += static_cast<double>(busy) / step_ns / world;
  }
  const double imbalance = step_ns > 0 ? 1 - share : 0;
  if (!Near(plan.predicted_imbalance, imbalance)) {
    return Broken(absl::StrCat("it states an imbalance of ",
                               plan.predicted_imbalance, "; it is ",
                               imbalance));
  }
  return absl::OkStatus();
}

absl::Status CheckTotals(const PlanRequest& request, const Plan& plan) {
  int64_t trained = 0, real = 0, padded = 0;
  for (const Sample& sample : request.samples) {
    trained += sample.trained_tokens;
    real += sample.length;
  }
  for (const auto& batch : plan.micro_batches) padded += batch.padded_tokens;
  if (plan.trained_tokens != trained) {
    return Broken(absl::StrCat("it divides by ", plan.trained_tokens,
                               " trained tokens; there are ", trained));
  }
  const double ratio = 1 - static_cast<double>(real) / padded;
  if (!Near(plan.padding_ratio, ratio)) {
    return Broken(absl::StrCat("it states a padding ratio of ",
                               plan.padding_ratio, "; it is ", ratio));
  }
  return absl::OkStatus();
}

// A lower bound above a plan that exists would be a bug of the bounds.
absl::Status CheckBound(const PlanRequest& request, const Plan& plan) {
  if (plan.lower_bound_ns < request.time.step_fixed_ns ||
      plan.lower_bound_ns > plan.predicted_step_ns) {
    return Broken(absl::StrCat("its lower bound of ", plan.lower_bound_ns,
                               " ns is not within its step of ",
                               plan.predicted_step_ns, " ns"));
  }
  return absl::OkStatus();
}

void HashWord(uint64_t& hash, uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash ^= (word >> shift) & 0xff;
    hash *= 1099511628211ULL;
  }
}

absl::Status CheckDigest(const PlanRequest& request, const Plan& plan) {
  uint64_t hash = 14695981039346656037ULL;
  HashWord(hash, plan.micro_batches.size());
  for (const MicroBatch& batch : plan.micro_batches) {
    HashWord(hash, batch.first_rank);
    HashWord(hash, batch.degree);
    HashWord(hash, batch.round);
    HashWord(hash, batch.recompute_layers);
    HashWord(hash, batch.padded_tokens);
    HashWord(hash, batch.samples.size());
    for (int index : batch.samples) {
      HashWord(hash, static_cast<uint64_t>(request.samples[index].id));
    }
  }
  if (hash == plan.digest) return absl::OkStatus();
  return Broken(absl::StrCat("its digest is ", absl::Hex(plan.digest),
                             " instead of ", absl::Hex(hash)));
}

}  // namespace

absl::Status CheckPlan(const PlanRequest& request, const Plan& plan) {
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  EVENSTEP_RETURN_IF_ERROR(CheckSamples(request, plan));
  EVENSTEP_RETURN_IF_ERROR(CheckMicroBatches(request, plan));
  EVENSTEP_RETURN_IF_ERROR(CheckRounds(request, plan));
  EVENSTEP_RETURN_IF_ERROR(CheckGroupsPerRank(request, plan));
  EVENSTEP_RETURN_IF_ERROR(CheckStep(request, plan));
  EVENSTEP_RETURN_IF_ERROR(CheckTotals(request, plan));
  EVENSTEP_RETURN_IF_ERROR(CheckBound(request, plan));
  return CheckDigest(request, plan);
}

}  // namespace evenstep::planner
