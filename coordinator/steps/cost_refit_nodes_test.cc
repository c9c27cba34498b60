// The costs that only few jobs have: across nodes, and of sharded attention.

#include <cmath>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "coordinator/steps/cost_refit.h"
#include "gtest/gtest.h"
#include "planner/costs/cost_model.h"

namespace evenstep::coordinator {
namespace {

planner::ModelShape Model() {
  planner::ModelShape model;
  model.num_layers = 4;
  return model;
}

// Two nodes of two ranks: a document on all of them, one on a node, and one on
// each rank of the other.
v1::StepPlan PlanOfTwoNodes(int64_t step) {
  const CounterRandom random(11);
  v1::StepPlan plan;
  plan.set_step(step);
  plan.set_world(4);
  for (const auto& [first_rank, degree] :
       std::vector<std::pair<int, int>>{{0, 4}, {0, 2}, {2, 1}, {3, 1}}) {
    v1::MicroBatch* const added = plan.add_micro_batches();
    added->set_first_rank(first_rank);
    added->set_degree(degree);
    added->add_lengths(std::llround(
        2048 * degree * (0.3 + random.Uniform(step, first_rank, degree))));
    added->set_recompute_layers(static_cast<int32_t>(step % 3));
  }
  return plan;
}

// As the planner predicts it.
int64_t PredictedNs(const planner::TimeModel& costs,
                    const v1::MicroBatch& micro_batch) {
  planner::PlanRequest request;
  request.model = Model();
  request.time = costs;
  request.cluster.ranks_per_node = {2, 2};
  const planner::CostModel model(request, micro_batch.recompute_layers());
  planner::Sample sample;
  sample.length = micro_batch.lengths(0);
  return model.MicroBatchNs(
      model.ClassOf({micro_batch.first_rank(), micro_batch.degree()}),
      model.SizeAt(micro_batch.degree(), sample));
}

planner::TimeModel ComputeAlone(planner::TimeModel costs) {
  costs.collective_latency_ns = costs.collective_latency_across_ns = 0;
  costs.collective.clear();
  costs.collective_across.clear();
  return costs;
}

// Whatever a plan can be made with is followed.
TEST(CostRefitTest, CostsOfShardedAttentionAndAcrossNodesAreFollowed) {
  planner::TimeModel truth;
  truth.micro_batch_fixed_ns = 400'000;
  truth.head_ns_per_token = 1e3;
  truth.set_layers(/*video=*/false, {planner::LayerTime{8e3, 1.5, 2e3, 1.5e3}});
  truth.collective_latency_ns = 50'000;
  truth.collective = {{2, 500}};
  truth.collective_latency_across_ns = 200'000;
  truth.collective_across = {{4, 9'000}};
  planner::TimeModel first = truth;
  first.linear_ns_per_token *= 2;
  first.attention_ns_per_token *= 2;
  first.sharded_attention_ns_per_token *= 3;
  first.collective_across[0].ns_per_token /= 4;
  CostRefit refit(first, Model(), {2, 2});
  for (int64_t step = 0; step < 80; ++step) {
    const v1::StepPlan plan = PlanOfTwoNodes(step);
    std::vector<v1::StepReport> reports(4);
    for (int rank = 0; rank < 4; ++rank) {
      reports[rank].set_rank(rank);
      for (const int index : {0, rank < 2 ? 1 : rank}) {
        const v1::MicroBatch& ran = plan.micro_batches(index);
        v1::MicroBatchTime* const time = reports[rank].add_micro_batches();
        time->set_index(index);
        time->set_compute_ns(PredictedNs(ComputeAlone(truth), ran));
        time->set_collective_ns(PredictedNs(truth, ran) - time->compute_ns());
      }
    }
    EXPECT_TRUE(refit.Observe(plan, reports).ok());
  }
  const v1::StepPlan later = PlanOfTwoNodes(200);
  for (const v1::MicroBatch& next : later.micro_batches()) {
    const auto right = static_cast<double>(PredictedNs(truth, next));
    const auto before = static_cast<double>(PredictedNs(first, next));
    const auto found = static_cast<double>(PredictedNs(refit.costs(), next));
    EXPECT_GT(std::abs(before / right - 1), 0.1) << next.degree();
    EXPECT_NEAR(found / right, 1, 0.03) << next.degree();
  }
}

}  // namespace
}  // namespace evenstep::coordinator
