#include "planner/simulator.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/counter_random.h"
#include "base/status_macros.h"
#include "planner/costs/cost_model.h"
#include "planner/evaluate.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

constexpr double kMaxNoise = 100;
constexpr double kMaxSlowdown = 1024;
constexpr double kLongestNs = 0x1p60;

// Streams of random numbers: one per cause, so that each can be changed alone.
enum Cause : uint64_t { kLayer, kRank, kNetwork, kCost };

absl::Status CheckRange(const std::string& what, double value, double least,
                        double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "hardware: ", what, " is ", value, "; it is from ", least, " to ", most));
}

absl::Status CheckLevel(const std::string& name, const NetworkLevel& level) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckRange(name + ".slowdown", level.slowdown, 1, kMaxSlowdown));
  return CheckRange(name + ".noise", level.noise, 0, kMaxNoise);
}

absl::Status CheckHardware(const Hardware& hardware, int num_ranks) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckRange("layer_noise", hardware.layer_noise, 0, kMaxNoise));
  EVENSTEP_RETURN_IF_ERROR(
      CheckRange("rank_noise", hardware.rank_noise, 0, kMaxNoise));
  EVENSTEP_RETURN_IF_ERROR(CheckLevel("inside_nodes", hardware.inside_nodes));
  EVENSTEP_RETURN_IF_ERROR(CheckLevel("across_nodes", hardware.across_nodes));
  const size_t num_slowdowns = hardware.rank_slowdown.size();
  if (num_slowdowns != 0 && num_slowdowns != static_cast<size_t>(num_ranks)) {
    return absl::InvalidArgumentError(
        absl::StrCat("hardware: rank_slowdown has ", num_slowdowns,
                     " entries, the cluster has ", num_ranks, " ranks"));
  }
  for (size_t rank = 0; rank < num_slowdowns; ++rank) {
    EVENSTEP_RETURN_IF_ERROR(
        CheckRange(absl::StrCat("rank_slowdown[", rank, "]"),
                   hardware.rank_slowdown[rank], 1, kMaxSlowdown));
  }
  return absl::OkStatus();
}

absl::Status CheckCanRun(const PlanRequest& request, const Plan& plan) {
  const int num_ranks = request.cluster.num_ranks();
  const int num_samples = static_cast<int>(request.samples.size());
  for (const MicroBatch& batch : plan.micro_batches) {
    if (batch.first_rank < 0 || batch.degree < 1 ||
        batch.first_rank > num_ranks - batch.degree) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plan: a micro-batch on ", batch.degree, " ranks from rank ",
          batch.first_rank, "; the cluster has ", num_ranks, " ranks"));
    }
    for (int sample : batch.samples) {
      if (sample >= 0 && sample < num_samples) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("plan: sample index ", sample, "; the request has ",
                       num_samples, " samples"));
    }
  }
  return absl::OkStatus();
}

// Times of the plan's micro-batches, were the costs those of `request`.
std::vector<int64_t> Predict(const PlanRequest& request, const Plan& plan) {
  std::vector<Placement> placements;
  for (const MicroBatch& batch : plan.micro_batches) {
    placements.push_back({{batch.first_rank, batch.degree},
                          batch.samples,
                          batch.round,
                          batch.recompute_layers});
  }
  const CostModel costs(request, request.options.recompute_layers);
  const Plan predicted =
      BuildPlan(request, costs, LowerBound(), std::move(placements));
  std::vector<int64_t> times_ns;
  for (const MicroBatch& batch : predicted.micro_batches) {
    times_ns.push_back(batch.predicted_ns);
  }
  return times_ns;
}

struct Duration {
  int64_t total_ns = 0;
  int64_t collectives_ns = 0;
};

// What each micro-batch takes without noise and stragglers.
std::vector<Duration> TrueDurations(PlanRequest request, const Plan& plan,
                                    const Hardware& hardware) {
  if (hardware.true_time.has_value()) request.time = *hardware.true_time;
  const std::vector<int64_t> total_ns = Predict(request, plan);
  for (auto* costs :
       {&request.time.collective, &request.time.gather,
        &request.time.collective_across, &request.time.gather_across}) {
    costs->clear();
  }
  request.time.collective_latency_ns = 0;
  request.time.collective_latency_across_ns = 0;
  const std::vector<int64_t> compute_ns = Predict(request, plan);
  std::vector<Duration> durations(total_ns.size());
  for (size_t i = 0; i < total_ns.size(); ++i) {
    durations[i] = {total_ns[i], total_ns[i] - compute_ns[i]};
  }
  return durations;
}

std::vector<int> NodeOfRank(const Cluster& cluster) {
  std::vector<int> nodes;
  for (size_t node = 0; node < cluster.ranks_per_node.size(); ++node) {
    nodes.insert(nodes.end(), cluster.ranks_per_node[node],
                 static_cast<int>(node));
  }
  return nodes;
}

// Time of a rank's compute over that of a nominal one, by the planner's own
// knowledge and without the noise of single layers.
std::vector<double> PlannedFactors(const Cluster& cluster) {
  std::vector<double> factors(cluster.num_ranks(), 1);
  for (size_t i = 0; i < cluster.rank_speed.size(); ++i) {
    factors[i] = 1 / cluster.rank_speed[i];
  }
  return factors;
}

class Simulation {
 public:
  Simulation(const PlanRequest& request, const Plan& plan,
             const Hardware& hardware)
      : request_(request),
        plan_(plan),
        hardware_(hardware),
        layer_random_(CounterRandom(hardware.seed).Stream(kLayer)),
        network_random_(CounterRandom(hardware.seed).Stream(kNetwork)),
        nodes_(NodeOfRank(request.cluster)),
        planned_factor_(PlannedFactors(request.cluster)),
        hidden_factor_(planned_factor_.size(), 1),
        free_ns_(planned_factor_.size(), 0) {
    const CounterRandom random = CounterRandom(hardware.seed).Stream(kRank);
    for (size_t i = 0; i < hidden_factor_.size(); ++i) {
      if (!hardware.rank_slowdown.empty()) {
        hidden_factor_[i] = hardware.rank_slowdown[i];
      }
      hidden_factor_[i] *= 1 + hardware.rank_noise * std::abs(random.Normal(i));
    }
    step_.ranks.resize(hidden_factor_.size());
  }

  absl::StatusOr<SimulatedStep> Run() && {
    const std::vector<Duration> durations =
        TrueDurations(request_, plan_, hardware_);
    int round = 0;
    for (size_t i = 0; i < durations.size(); ++i) {
      const bool barrier = request_.options.sync == SyncMode::kPerRound &&
                           plan_.micro_batches[i].round != round;
      if (barrier) WaitForAll();
      round = plan_.micro_batches[i].round;
      RunMicroBatch(static_cast<int>(i), durations[i]);
      if (too_long_) {
        return absl::InvalidArgumentError(
            "hardware: the step takes longer than 2^60 ns (36 years); less "
            "noise or slowdown is needed");
      }
    }
    WaitForAll();
    Finish();
    return std::move(step_);
  }

 private:
  // Everybody waits for the last one, outside of any micro-batch.
  void WaitForAll() {
    const int64_t end_ns = *std::max_element(free_ns_.begin(), free_ns_.end());
    for (size_t rank = 0; rank < free_ns_.size(); ++rank) {
      step_.ranks[rank].waiting_ns += end_ns - free_ns_[rank];
      free_ns_[rank] = end_ns;
    }
  }

  void RunMicroBatch(int index, const Duration& duration) {
    const MicroBatch& batch = plan_.micro_batches[index];
    const auto first = free_ns_.begin() + batch.first_rank;
    const int64_t start_ns = *std::max_element(first, first + batch.degree);
    RunLayers(index, duration);
    const int64_t end_ns = start_ns + group_ns_;
    if (end_ns > static_cast<int64_t>(kLongestNs)) too_long_ = true;
    for (int i = 0; i < batch.degree; ++i) {
      const int rank = batch.first_rank + i;
      const int64_t waiting_ns = start_ns - free_ns_[rank] + inside_ns_[i];
      step_.timeline.push_back(
          {rank, index, free_ns_[rank], start_ns, end_ns, waiting_ns});
      step_.ranks[rank].waiting_ns += waiting_ns;
      step_.ranks[rank].busy_ns += end_ns - start_ns - inside_ns_[i];
      free_ns_[rank] = end_ns;
    }
  }

  // Sets group_ns_, and inside_ns_ per rank of the group. Works with what goes
  // beyond the given duration, so that nothing beyond leaves it untouched.
  void RunLayers(int index, const Duration& duration) {
    const MicroBatch& batch = plan_.micro_batches[index];
    const int num_layers = request_.model.layers().total();
    const auto ranks = std::pair(batch.first_rank, batch.degree);
    const double slowest = SlowestPlannedFactor(ranks);
    const double layer_ns =
        static_cast<double>(duration.total_ns - duration.collectives_ns) /
        num_layers;
    double extra_ns = NetworkExtraNs(index, duration);
    inside_.assign(batch.degree, 0);
    for (int layer = 0; layer < num_layers; ++layer) {
      const double longest = RunLayer(index, layer, slowest);
      extra_ns += layer_ns * (longest - 1);
      for (int i = 0; i < batch.degree; ++i) {
        inside_[i] += layer_ns * (longest - factor_[i]);
      }
    }
    if (extra_ns > kLongestNs) too_long_ = true;
    group_ns_ =
        duration.total_ns + std::llround(std::min(extra_ns, kLongestNs));
    inside_ns_.resize(batch.degree);
    for (int i = 0; i < batch.degree; ++i) {
      inside_ns_[i] = std::min<int64_t>(std::llround(inside_[i]), group_ns_);
    }
  }

  // Fills factor_: the ranks' compute times over the planned one of the layer.
  // Returns the longest.
  double RunLayer(int index, int layer, double slowest) {
    const MicroBatch& batch = plan_.micro_batches[index];
    factor_.resize(batch.degree);
    double longest = 0;
    for (int i = 0; i < batch.degree; ++i) {
      const int rank = batch.first_rank + i;
      factor_[i] = planned_factor_[rank] / slowest * hidden_factor_[rank];
      if (hardware_.layer_noise > 0) {
        const double z = layer_random_.Normal(index, layer, rank);
        factor_[i] *= 1 + hardware_.layer_noise * std::abs(z);
      }
      longest = std::max(longest, factor_[i]);
    }
    return longest;
  }

  double SlowestPlannedFactor(std::pair<int, int> ranks) const {
    const auto first = planned_factor_.begin() + ranks.first;
    return *std::max_element(first, first + ranks.second);
  }

  double NetworkExtraNs(int index, const Duration& duration) const {
    const MicroBatch& batch = plan_.micro_batches[index];
    const bool inside =
        nodes_[batch.first_rank] == nodes_[batch.first_rank + batch.degree - 1];
    const NetworkLevel& level =
        inside ? hardware_.inside_nodes : hardware_.across_nodes;
    const int num_layers = request_.model.layers().total();
    double extra = level.slowdown - 1;
    if (level.noise > 0) {
      double noise = 0;
      for (int layer = 0; layer < num_layers; ++layer) {
        noise += std::abs(network_random_.Normal(index, layer));
      }
      extra += level.slowdown * level.noise * noise / num_layers;
    }
    return static_cast<double>(duration.collectives_ns) * extra;
  }

  void Finish() {
    const int64_t fixed_ns = hardware_.true_time.has_value()
                                 ? hardware_.true_time->step_fixed_ns
                                 : request_.time.step_fixed_ns;
    step_.step_ns = free_ns_[0] + fixed_ns;
    double waiting_ns = 0;
    for (SimulatedRank& rank : step_.ranks) {
      rank.busy_ns += fixed_ns;
      waiting_ns += static_cast<double>(rank.waiting_ns);
    }
    const double capacity_ns = static_cast<double>(step_.step_ns) *
                               static_cast<double>(step_.ranks.size());
    step_.idle_share = capacity_ns > 0 ? waiting_ns / capacity_ns : 0;
  }

  const PlanRequest& request_;
  const Plan& plan_;
  const Hardware& hardware_;
  const CounterRandom layer_random_;
  const CounterRandom network_random_;
  const std::vector<int> nodes_;
  const std::vector<double> planned_factor_;
  std::vector<double> hidden_factor_;  // stragglers and noise per rank
  std::vector<int64_t> free_ns_;
  SimulatedStep step_;

  // Of the micro-batch that runs.
  bool too_long_ = false;
  int64_t group_ns_ = 0;
  std::vector<double> factor_;
  std::vector<double> inside_;
  std::vector<int64_t> inside_ns_;  // waiting in the collectives
};

}  // namespace

absl::StatusOr<TimeModel> MisjudgedCosts(const TimeModel& time,
                                         double half_width, uint64_t seed) {
  EVENSTEP_RETURN_IF_ERROR(CheckRange("cost error", half_width, 0, 0.99));
  const CounterRandom random = CounterRandom(seed).Stream(kCost);
  uint64_t next = 0;
  auto factor = [&] {
    return 1 + half_width * (2 * random.Uniform(next++) - 1);
  };
  TimeModel wrong = time;
  for (int64_t* ns :
       {&wrong.micro_batch_fixed_ns, &wrong.collective_latency_ns,
        &wrong.collective_latency_across_ns, &wrong.step_fixed_ns}) {
    *ns = std::llround(static_cast<double>(*ns) * factor());
  }
  // Attention is a part of the linear cost and stays one: the rest of it is
  // scaled by the first factor, attention by its own.
  auto misjudge = [&](LayerTime layers) {
    const double rest =
        (layers.linear_ns_per_token - layers.attention_ns_per_token) * factor();
    layers.quadratic_ns_per_token2 *= factor();
    layers.attention_ns_per_token *= factor();
    layers.sharded_attention_ns_per_token *= factor();
    layers.linear_ns_per_token = rest + layers.attention_ns_per_token;
    return layers;
  };
  wrong.set_layers(/*video=*/false, {misjudge(wrong.layers(false)[0])});
  wrong.head_ns_per_token *= factor();
  wrong.spatial = misjudge(wrong.spatial);
  wrong.temporal = misjudge(wrong.temporal);
  for (auto* entries : {&wrong.collective, &wrong.gather,
                        &wrong.collective_across, &wrong.gather_across}) {
    for (auto& entry : *entries) entry.ns_per_token *= factor();
  }
  return wrong;
}

absl::StatusOr<SimulatedStep> Simulate(const PlanRequest& request,
                                       const Plan& plan,
                                       const Hardware& hardware) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckHardware(hardware, request.cluster.num_ranks()));
  EVENSTEP_RETURN_IF_ERROR(CheckCanRun(request, plan));
  if (hardware.true_time.has_value()) {
    PlanRequest true_request = request;
    true_request.time = *hardware.true_time;
    EVENSTEP_RETURN_IF_ERROR(ValidateRequest(true_request));
  }
  return Simulation(request, plan, hardware).Run();
}

}  // namespace evenstep::planner
