// CheckPlan: a second opinion on every plan before it is sent. It uses the same
// validation of requests (validate.h) and no other code of the planner: rules
// and formulas are written a second time, here and in checker_formulas.h, from
// the request alone, and in plain order instead of fast order. Do not merge the
// two. The lower bound is not computed again: a plan that is right can come
// with a bound that is too low, or that another argument gave (CheckBound).

#include "planner/proof/checker.h"

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
#include "planner/proof/checker_formulas.h"
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

bool DegreeIsLegal(const PlanRequest& request, int degree) {
  if (degree == 1) return true;
  const auto& asked = request.options.degrees;
  if (!asked.empty() && std::count(asked.begin(), asked.end(), degree) == 0) {
    return false;
  }
  return checker::SharingAt(request.model, degree).has_value();
}

absl::Status CheckBlock(const PlanRequest& request, const std::string& name,
                        const MicroBatch& batch) {
  const int world = WorldOf(request);
  if (batch.degree < 1 || batch.degree > world || batch.first_rank < 0 ||
      batch.first_rank > world - batch.degree) {
    return Broken(absl::StrCat(name, " leaves the ", world, " ranks"));
  }
  if (!DegreeIsLegal(request, batch.degree)) {
    return Broken(absl::StrCat(name, " has degree ", batch.degree,
                               ", which the model does not allow"));
  }
  const checker::Sharing sharing =
      *checker::SharingAt(request.model, batch.degree);
  if (batch.sp_mode != sharing.mode ||
      batch.ulysses_degree != sharing.ulysses) {
    return Broken(absl::StrCat(
        name, " shares its sequences by mode ", static_cast<int>(batch.sp_mode),
        " with ", batch.ulysses_degree, " ulysses ranks; it must be ",
        static_cast<int>(sharing.mode), " with ", sharing.ulysses));
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

bool RecomputeIsAllowed(const Options& options, const LayerCounts& layers) {
  for (const LayerCounts& choice : options.recompute_choices) {
    if (choice == layers) return true;
  }
  return options.recompute_layers == layers;
}

absl::Status CheckTokens(const PlanRequest& request, const std::string& name,
                         const MicroBatch& batch) {
  const auto padded = checker::PaddedTokensOf(request, batch);
  if (!padded.has_value()) {
    return Broken(absl::StrCat(name, " holds a sample of fewer frames or ",
                               "patches than ranks"));
  }
  if (batch.padded_tokens != *padded) {
    return Broken(absl::StrCat(name, " states ", batch.padded_tokens,
                               " padded tokens; they are ", *padded));
  }
  const int64_t own_tokens = *padded / batch.degree;
  const int64_t holds = checker::TokensARankHolds(request, batch);
  if (own_tokens > holds) {
    return Broken(absl::StrCat(name, " needs ", own_tokens,
                               " tokens per rank of ", holds));
  }
  const Wide bytes = checker::BytesOf(request, batch);
  if (batch.predicted_bytes != bytes) {
    return Broken(absl::StrCat(name, " states ", batch.predicted_bytes,
                               " bytes of activations; they are ",
                               static_cast<int64_t>(bytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckRecompute(const PlanRequest& request, const std::string& name,
                            const MicroBatch& batch) {
  if (RecomputeIsAllowed(request.options, batch.recompute_layers)) {
    return absl::OkStatus();
  }
  return Broken(absl::StrCat(name, " recomputes ", batch.recompute_layers[0],
                             " + ", batch.recompute_layers[1],
                             " layers, which was not asked for"));
}

absl::Status CheckMicroBatches(const PlanRequest& request, const Plan& plan) {
  for (size_t k = 0; k < plan.micro_batches.size(); ++k) {
    const MicroBatch& batch = plan.micro_batches[k];
    const std::string name = Name(k, batch);
    EVENSTEP_RETURN_IF_ERROR(CheckBlock(request, name, batch));
    EVENSTEP_RETURN_IF_ERROR(CheckRecompute(request, name, batch));
    EVENSTEP_RETURN_IF_ERROR(CheckTokens(request, name, batch));
    const int64_t expected_ns = checker::NanosecondsOf(request, batch);
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

// A lower bound above a plan that exists would be a bug of the bounds. One that
// is too low is not seen here.
absl::Status CheckBound(const PlanRequest& request, const Plan& plan) {
  if (plan.lower_bound_ns < request.time.step_fixed_ns ||
      plan.lower_bound_ns > plan.predicted_step_ns) {
    return Broken(absl::StrCat("its lower bound of ", plan.lower_bound_ns,
                               " ns is not within its step of ",
                               plan.predicted_step_ns, " ns"));
  }
  switch (plan.active_bound) {
    case BoundKind::kArea:
    case BoundKind::kLongest:
    case BoundKind::kMemory:
    case BoundKind::kDestructive:
      return absl::OkStatus();
  }
  return Broken(absl::StrCat("its active bound is ",
                             static_cast<int>(plan.active_bound),
                             ", which is none"));
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
    HashWord(hash, batch.recompute_layers[0]);
    HashWord(hash, batch.padded_tokens);
    HashWord(hash, batch.samples.size());
    for (int index : batch.samples) {
      HashWord(hash, static_cast<uint64_t>(request.samples[index].id));
    }
    if (batch.sp_mode != SpMode::kUlysses || batch.recompute_layers[1] > 0) {
      HashWord(hash, UINT64_MAX);
      HashWord(hash, static_cast<uint64_t>(batch.sp_mode));
      HashWord(hash, batch.ulysses_degree);
      HashWord(hash, batch.recompute_layers[1]);
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
