#include "planner/costs/cost_terms.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "planner/costs/cost_model.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

PlanRequest Draw(uint64_t seed) {
  PlanRequest request = testing::RandomRequest(seed, {});
  request = seed % 2 == 0 ? testing::WithSpModes(request, seed)
                          : testing::AsVideo(request, seed);
  const LayerCounts layers = request.model.layers();
  request.options.recompute_layers = {layers[0] / 2, layers[1] / 3};
  return request;
}

// The time of a micro-batch of all samples, by the sum of costs times terms.
double SumNs(const PlanRequest& request, const Block& block) {
  const CostTerms terms(request.model, request.time);
  BatchWork work = WorkOf(request.model, SplitFor(request.model, block.degree),
                          request.samples, request.options.recompute_layers);
  work.crosses_nodes =
      NodeMap(request.time, request.cluster).ClassOf(block).crosses_nodes;
  double ns = Dot(terms.ComputeCosts(request.time), terms.ComputeTerms(work));
  if (block.degree == 1) return ns;
  return ns +
         Dot(terms.CollectiveCosts(request.time), terms.CollectiveTerms(work));
}

// The oracle: what plans are made with, in integers.
TEST(CostTermsTest, CostsTimesTermsAreTheCostModel) {
  int num_across = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const PlanRequest request = Draw(seed);
    const CostModel costs(request, request.options.recompute_layers);
    for (const BlockClass& block_class : BlockClasses(request)) {
      const Block block = BlocksOfClass(request, block_class).front();
      BatchSize size;
      for (const Sample& sample : request.samples) {
        size += costs.SizeAt(block.degree, sample);
      }
      const auto expected =
          static_cast<double>(costs.MicroBatchNs(block_class, size));
      // Costs are held with 24 bits below a nanosecond.
      EXPECT_NEAR(SumNs(request, block), expected, 100 + 1e-5 * expected)
          << "seed " << seed << ", degree " << block.degree;
      num_across += block_class.crosses_nodes ? 1 : 0;
    }
  }
  EXPECT_GT(num_across, 100);
}

TEST(CostTermsTest, CostsAreSetAsTheyWereRead) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PlanRequest request = Draw(seed);
    const CostTerms terms(request.model, request.time);
    TimeModel again = request.time;
    terms.SetComputeCosts(terms.ComputeCosts(request.time), &again);
    terms.SetCollectiveCosts(terms.CollectiveCosts(request.time), &again);
    const LayerTimes before = request.time.layers(request.model.is_video());
    const LayerTimes after = again.layers(request.model.is_video());
    for (int kind = 0; kind < request.model.num_kinds(); ++kind) {
      EXPECT_NEAR(after[kind].linear_ns_per_token,
                  before[kind].linear_ns_per_token, 1e-6);
      EXPECT_NEAR(after[kind].attention_ns_per_token,
                  before[kind].attention_ns_per_token, 1e-6);
      EXPECT_NEAR(after[kind].sharded_attention_ns_per_token,
                  before[kind].sharded_attention_ns_per_token, 1e-6);
    }
    again.set_layers(request.model.is_video(), before);
    EXPECT_EQ(again, request.time);
  }
}

}  // namespace
}  // namespace evenstep::planner
