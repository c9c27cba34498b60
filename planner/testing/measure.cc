#include "planner/testing/measure.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <random>

#include "base/status_macros.h"
#include "planner/evaluate.h"
#include "planner/planner.h"

namespace evenstep::planner::testing {
namespace {

double ThreadCpuMs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace

const std::vector<Objective>& Objectives() {
  static const auto* const kObjectives = new std::vector<Objective>{
      {"per_step/aligned", SyncMode::kPerStep, BlockShape::kAligned},
      {"per_step/contiguous", SyncMode::kPerStep, BlockShape::kContiguous},
      {"per_round/aligned", SyncMode::kPerRound, BlockShape::kAligned},
      {"per_round/contiguous", SyncMode::kPerRound, BlockShape::kContiguous}};
  return *kObjectives;
}

absl::StatusOr<Measured> Measure(const Planner& planner,
                                 const PlanRequest& request, int runs) {
  Measured measured;
  for (int run = 0; run < runs; ++run) {
    const double start_ms = ThreadCpuMs();
    absl::StatusOr<Plan> plan = planner(request);
    const double cpu_ms = ThreadCpuMs() - start_ms;
    if (!plan.ok()) return plan.status();
    measured.cpu_ms = run == 0 ? cpu_ms : std::min(measured.cpu_ms, cpu_ms);
    measured.plan = *std::move(plan);
  }
  EVENSTEP_RETURN_IF_ERROR(CheckPlan(request, measured.plan));
  return measured;
}

double RatioOf(const Plan& plan) {
  return static_cast<double>(plan.predicted_step_ns) /
         static_cast<double>(plan.lower_bound_ns);
}

void Summary::Add(const Measured& measured) {
  ratios.push_back(RatioOf(measured.plan));
  cpu_ms.push_back(measured.cpu_ms);
}

double Summary::MeanRatio() const {
  return std::accumulate(ratios.begin(), ratios.end(), 0.0) /
         static_cast<double>(ratios.size());
}

double Summary::WorstRatio() const {
  return *std::max_element(ratios.begin(), ratios.end());
}

double Summary::P99Ms() const {
  std::vector<double> sorted = cpu_ms;
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() * 99 - 1) / 100];
}

int64_t StepNsUnder(const PlanRequest& truth, const Plan& plan) {
  std::vector<Placement> placements;
  for (const MicroBatch& batch : plan.micro_batches) {
    placements.push_back({{batch.first_rank, batch.degree},
                          batch.samples,
                          batch.round,
                          batch.recompute_layers});
  }
  return PredictStepNs(truth, CostModel(truth, truth.options.recompute_layers),
                       placements);
}

int64_t StepNsWithNoise(const PlanRequest& request, const Plan& plan,
                        uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<int64_t> free_ns(request.cluster.num_ranks(), 0);
  int round = 0;
  for (const MicroBatch& batch : plan.micro_batches) {
    if (batch.round != round) {
      const auto latest = std::max_element(free_ns.begin(), free_ns.end());
      std::fill(free_ns.begin(), free_ns.end(), *latest);
      round = batch.round;
    }
    const auto off_per_mille = static_cast<int64_t>(engine() % 201) - 100;
    const auto first = free_ns.begin() + batch.first_rank;
    const auto last = first + batch.degree;
    const int64_t end_ns = *std::max_element(first, last) +
                           batch.predicted_ns / 1000 * (1000 + off_per_mille);
    std::fill(first, last, end_ns);
  }
  return *std::max_element(free_ns.begin(), free_ns.end()) +
         request.time.step_fixed_ns;
}

PlanRequest WithOtherCosts(PlanRequest request, uint64_t seed) {
  std::mt19937_64 engine(seed);
  auto factor = [&engine] {
    return 0.9 + 0.2 * static_cast<double>(engine() % 1001) / 1000;
  };
  TimeModel& time = request.time;
  time.micro_batch_fixed_ns = static_cast<int64_t>(
      static_cast<double>(time.micro_batch_fixed_ns) * factor());
  time.linear_ns_per_token *= factor();
  time.quadratic_ns_per_token2 *= factor();
  for (auto& entry : time.collective) entry.ns_per_token *= factor();
  return request;
}

PlanRequest WithSlowRank(PlanRequest request, uint64_t seed) {
  const int num_ranks = request.cluster.num_ranks();
  request.cluster.rank_speed.assign(num_ranks, 1.0);
  request.cluster.rank_speed[(7 * seed + 3) % num_ranks] = 0.8;
  return request;
}

PlanRequest WithRecompute(PlanRequest request) {
  // Bytes of FlexSP's 7B model: 34 h a layer and token.
  const int64_t layer_bytes = int64_t{34} * request.model.width;
  const int layers = request.model.num_layers;
  MemoryModel memory;
  memory.activation_bytes =
      request.memory.tokens_per_rank * layers * layer_bytes;
  memory.layer_bytes_per_token = layer_bytes;
  memory.kept_bytes_per_token = int64_t{2} * request.model.width;
  request.memory = memory;
  for (int quarter = 0; quarter <= 4; ++quarter) {
    request.options.recompute_choices.emplace_back(layers * quarter / 4);
  }
  return request;
}

}  // namespace evenstep::planner::testing
