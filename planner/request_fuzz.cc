// Requests of absurd numbers: huge, negative and missing counts, NaN and
// infinite costs, any enum. Whatever comes in, the answer is a plan that the
// checker passes or one of two errors.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "planner/planner.h"
#include "planner/policies/elastic.h"

namespace evenstep::planner {
namespace {

// Beyond these a plan is only slow.
constexpr size_t kMaxSamplesPlanned = 48;
constexpr int kMaxRanksPlanned = 64;
constexpr int64_t kMaxBudget = 200;

class Bytes {
 public:
  Bytes(const uint8_t* bytes, size_t size) : bytes_(bytes), left_(size) {}

  bool empty() const { return left_ == 0; }
  template <typename T>
  T Raw() {
    T value = 0;
    const size_t size = left_ < sizeof(T) ? left_ : sizeof(T);
    std::memcpy(&value, bytes_, size);
    bytes_ += size;
    left_ -= size;
    return value;
  }
  // Mostly small, at times anything.
  int64_t Number() {
    const auto kind = Raw<uint8_t>();
    return kind < 200 ? kind % 50 : Raw<int64_t>();
  }
  int Int() { return static_cast<int>(Number()); }
  double Real() {
    const auto kind = Raw<uint8_t>();
    return kind < 200 ? kind * 0.75 : Raw<double>();
  }

 private:
  const uint8_t* bytes_;
  size_t left_;
};

LayerTime LayerTimeFrom(Bytes& in) {
  return {in.Real(), in.Real(), in.Real(), in.Real()};
}

void ModelFrom(Bytes& in, PlanRequest& request) {
  ModelShape& model = request.model;
  model.num_layers = in.Int();
  model.heads = in.Int();
  model.kv_heads = in.Int();
  model.expand_kv_heads = in.Number() % 2 == 1;
  model.max_switch_degree = in.Int();
  if (in.Number() % 3 == 0) {
    model.spatial_layers = in.Int();
    model.temporal_layers = in.Int();
  }
  for (int64_t k = in.Number() % 4; k > 0; --k) {
    model.sp_modes.push_back(static_cast<SpMode>(in.Int() % 5));
  }
}

void CostsFrom(Bytes& in, PlanRequest& request) {
  TimeModel& time = request.time;
  time.micro_batch_fixed_ns = in.Number();
  time.linear_ns_per_token = in.Real();
  time.quadratic_ns_per_token2 = in.Real();
  time.attention_ns_per_token = in.Real();
  time.sharded_attention_ns_per_token = in.Real();
  time.head_ns_per_token = in.Real();
  time.collective_latency_ns = in.Number();
  time.step_fixed_ns = in.Number();
  time.spatial = LayerTimeFrom(in);
  time.temporal = LayerTimeFrom(in);
  for (auto* costs : {&time.collective, &time.gather, &time.collective_across,
                      &time.gather_across}) {
    for (int64_t k = in.Number() % 3; k > 0; --k) {
      costs->push_back({in.Int(), in.Real()});
    }
  }
  MemoryModel& memory = request.memory;
  memory.tokens_per_rank = in.Number();
  memory.activation_bytes = in.Number();
  memory.layer_bytes_per_token = in.Number();
  memory.kept_bytes_per_token = in.Number();
  memory.head_bytes_per_token = in.Number();
  memory.gathered_bytes_per_token = in.Number();
  memory.spatial = {in.Number(), in.Number(), in.Number()};
  memory.temporal = {in.Number(), in.Number(), in.Number()};
  memory.backward_bytes_per_token = in.Number();
  memory.kv_head_bytes_per_token = in.Number();
}

void OptionsFrom(Bytes& in, Options& options) {
  options.policy = static_cast<Policy>(in.Int() % 9);
  options.sync = static_cast<SyncMode>(in.Int() % 3);
  options.blocks = static_cast<BlockShape>(in.Int() % 3);
  options.recompute_layers = LayerCounts(in.Int(), in.Int());
  for (int64_t k = in.Number() % 3; k > 0; --k) {
    options.recompute_choices.emplace_back(in.Int(), in.Int());
  }
  options.max_groups_per_rank = in.Int();
  options.work_budget = in.Number();
}

bool IsSide(int64_t patches) { return patches >= 0 && patches < 1000; }

PlanRequest RequestFrom(Bytes in) {
  PlanRequest request;
  ModelFrom(in, request);
  OptionsFrom(in, request.options);
  CostsFrom(in, request);
  for (int64_t k = in.Number() % 4; k > 0; --k) {
    request.cluster.ranks_per_node.push_back(in.Int());
  }
  if (in.Number() % 4 == 0) {
    for (int64_t k = in.Number() % 70; k > 0; --k) {
      request.cluster.rank_speed.push_back(in.Real());
    }
  }
  request.run.max_length = in.Number() % 3 == 0 ? in.Number() : 0;
  while (!in.empty()) {
    Sample sample{in.Number(), in.Number(), in.Number(), 0, 0, 0};
    if (in.Number() % 2 == 0) {
      sample.frames = in.Number();
      sample.height = in.Number();
      sample.width = in.Number();
      const bool small = IsSide(sample.frames) && IsSide(sample.height) &&
                         IsSide(sample.width);
      if (small && in.Number() % 4 != 0) {
        sample.length = sample.frames * sample.height * sample.width;
      }
    }
    request.samples.push_back(sample);
  }
  return request;
}

void CheckStatus(const absl::Status& status) {
  EVENSTEP_CHECK(status.code() == absl::StatusCode::kInvalidArgument ||
                     status.code() == absl::StatusCode::kFailedPrecondition,
                 "a request is planned, bad, or impossible");
}

bool IsSmall(const PlanRequest& request) {
  int64_t num_ranks = 0;
  for (int ranks : request.cluster.ranks_per_node) num_ranks += ranks;
  return request.samples.size() <= kMaxSamplesPlanned &&
         num_ranks <= kMaxRanksPlanned &&
         request.options.work_budget <= kMaxBudget;
}

}  // namespace
}  // namespace evenstep::planner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  namespace planner = evenstep::planner;
  const planner::PlanRequest request =
      planner::RequestFrom(planner::Bytes(bytes, size));
  const planner::Plan no_plan;
  if (!planner::IsSmall(request)) {
    EVENSTEP_CHECK(!planner::CheckPlan(request, no_plan).ok(),
                   "no plan is no good plan");
    return 0;
  }
  const auto plan = planner::MakePlan(request);
  if (plan.ok()) {
    EVENSTEP_CHECK(planner::CheckPlan(request, *plan).ok(),
                   "the checker passes what was planned");
  } else {
    planner::CheckStatus(plan.status());
  }
  const auto step = planner::DrawElasticStep(request, {});
  if (step.ok()) {
    EVENSTEP_CHECK(planner::CheckElasticStep(request, *step).ok(),
                   "the check passes what was drawn");
  } else {
    planner::CheckStatus(step.status());
  }
  return 0;
}
