#include "coordinator/steps/cost_refit.h"

#include <cmath>
#include <vector>

#include "base/counter_random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::IsEmpty;

constexpr int kLayers = 4;
constexpr int kWorld = 2;

planner::ModelShape TextModel() {
  planner::ModelShape model;
  model.num_layers = kLayers;
  return model;
}

planner::TimeModel Costs(double factor = 1) {
  planner::TimeModel costs;
  costs.micro_batch_fixed_ns = std::llround(4e5 * factor);
  costs.head_ns_per_token = 1e3 * factor;
  costs.linear_ns_per_token = 8e3 * factor;
  costs.quadratic_ns_per_token2 = 1.5 * factor;
  costs.collective_latency_ns = 50'000;
  costs.collective = {{2, 500}};
  costs.step_fixed_ns = 5'000'000;
  return costs;
}

// A machine that keeps to its true costs, but for noise; rank 1 may be slow.
class Machine {
 public:
  explicit Machine(const planner::TimeModel& truth, double noise = 0,
                   double slowness = 1)
      : truth_(truth), noise_(noise), slowness_(slowness) {}

  // A long document on both ranks, then short ones on each.
  v1::StepPlan Plan(int64_t step) const {
    v1::StepPlan plan;
    plan.set_step(step);
    plan.set_world(kWorld);
    Add(plan, 0, 2, {Length(step, 0, 4096)});
    Add(plan, 0, 1, {Length(step, 1, 1024), Length(step, 2, 300)});
    Add(plan, 1, 1, {Length(step, 3, 1400)});
    return plan;
  }

  std::vector<v1::StepReport> Run(const v1::StepPlan& plan) const {
    std::vector<v1::StepReport> reports(kWorld);
    for (int rank = 0; rank < kWorld; ++rank) {
      reports[rank].set_rank(rank);
      reports[rank].set_reduction_ns(1'000'000 + 3'000'000 * rank);
      reports[rank].set_update_compute_ns(truth_.step_fixed_ns - 1'000'000);
      for (int i = 0; i < plan.micro_batches_size(); ++i) {
        const v1::MicroBatch& micro_batch = plan.micro_batches(i);
        if (rank < micro_batch.first_rank() ||
            rank >= micro_batch.first_rank() + micro_batch.degree()) {
          continue;
        }
        v1::MicroBatchTime* time = reports[rank].add_micro_batches();
        time->set_index(i);
        time->set_compute_ns(
            std::llround(ComputeNs(micro_batch) * (rank == 1 ? slowness_ : 1) *
                         (1 + noise_ * random_.Normal(plan.step(), i, rank))));
        if (micro_batch.degree() == 1) continue;
        // Rank 0 waits for rank 1.
        time->set_collective_ns(std::llround(CollectiveNs(micro_batch)) +
                                (rank == 0 ? 40'000'000 : 0));
      }
    }
    return reports;
  }

  // Mean over steps of |predicted - true| / true, of all micro-batches.
  double Error(const planner::TimeModel& costs, int64_t first_step) const {
    const Machine believed(costs);
    double error = 0;
    for (int64_t step = first_step; step < first_step + 10; ++step) {
      double truth_ns = 0;
      double believed_ns = 0;
      const v1::StepPlan plan = Plan(step);
      for (const v1::MicroBatch& micro_batch : plan.micro_batches()) {
        truth_ns += ComputeNs(micro_batch) + CollectiveNs(micro_batch);
        believed_ns += believed.ComputeNs(micro_batch) +
                       believed.CollectiveNs(micro_batch);
      }
      error += std::abs(believed_ns / truth_ns - 1) / 10;
    }
    return error;
  }

 private:
  int64_t Length(int64_t step, int which, int64_t mean) const {
    return std::llround(static_cast<double>(mean) *
                        (0.5 + lengths_.Uniform(step, which)));
  }
  bool gathers() const { return !truth_.gather.empty(); }
  void Add(v1::StepPlan& plan, int first_rank, int degree,
           const std::vector<int64_t>& lengths) const {
    v1::MicroBatch* micro_batch = plan.add_micro_batches();
    micro_batch->set_first_rank(first_rank);
    micro_batch->set_degree(degree);
    const bool gather = gathers() && degree > 1;
    micro_batch->set_sp_mode(gather ? v1::SP_MODE_KV_GATHER
                                    : v1::SP_MODE_ULYSSES);
    micro_batch->set_ulysses_degree(gather ? 1 : degree);
    for (const int64_t length : lengths) micro_batch->add_lengths(length);
  }
  // Zigzag pads every sample to a multiple of twice the degree.
  double Tokens(const v1::MicroBatch& micro_batch) const {
    const double degree = micro_batch.degree();
    const double multiple = gathers() && degree > 1 ? 2 * degree : 1;
    double tokens = 0;
    for (const int64_t length : micro_batch.lengths()) {
      tokens += std::ceil(static_cast<double>(length) / multiple) * multiple;
    }
    return std::ceil(tokens / degree) * degree;
  }
  double ComputeNs(const v1::MicroBatch& micro_batch) const {
    const double tokens = Tokens(micro_batch);
    double squares = 0;
    for (const int64_t length : micro_batch.lengths()) {
      squares += static_cast<double>(length) * static_cast<double>(length);
    }
    return static_cast<double>(truth_.micro_batch_fixed_ns) +
           ((truth_.head_ns_per_token + truth_.linear_ns_per_token) * tokens +
            truth_.quadratic_ns_per_token2 * squares) /
               micro_batch.degree();
  }
  double CollectiveNs(const v1::MicroBatch& micro_batch) const {
    if (micro_batch.degree() == 1) return 0;
    const auto latency_ns = static_cast<double>(truth_.collective_latency_ns);
    const double tokens = Tokens(micro_batch);
    return gathers() ? 4 * kLayers * latency_ns +
                           tokens * truth_.gather[0].ns_per_token
                     : 8 * kLayers * latency_ns +
                           tokens / 2 * truth_.collective[0].ns_per_token;
  }

  const planner::TimeModel truth_;
  const double noise_;
  const double slowness_;
  const CounterRandom random_{7};
  const CounterRandom lengths_{8};
};

CostRefit RunSteps(const planner::TimeModel& first, const Machine& machine,
                   int64_t steps) {
  CostRefit refit(first, TextModel(), {kWorld});
  for (int64_t step = 0; step < steps; ++step) {
    const v1::StepPlan plan = machine.Plan(step);
    EXPECT_TRUE(refit.Observe(plan, machine.Run(plan)).ok());
  }
  return refit;
}

TEST(CostRefitTest, RightCostsStayAsTheyAre) {
  const CostRefit refit = RunSteps(Costs(), Machine(Costs()), 20);
  EXPECT_NEAR(refit.costs().linear_ns_per_token, 8e3, 1);
  EXPECT_NEAR(refit.costs().quadratic_ns_per_token2, 1.5, 1e-3);
  EXPECT_NEAR(refit.costs().step_fixed_ns, 5'000'000, 10);
  EXPECT_NEAR(refit.drift(), 0, 1e-4);
}

TEST(CostRefitTest, CostsThatAreThreeTimesTooHighComeDownWithin30Steps) {
  const Machine machine(Costs(), 0.03);
  EXPECT_GT(machine.Error(Costs(3), 100), 1);
  const CostRefit refit = RunSteps(Costs(3), machine, 30);
  EXPECT_LT(machine.Error(refit.costs(), 100), 0.03);
  EXPECT_NEAR(refit.drift(), -2.0 / 3, 0.02);
}

TEST(CostRefitTest, AWrongShapeIsMendedToo) {
  planner::TimeModel first = Costs();
  first.linear_ns_per_token *= 2;
  first.quadratic_ns_per_token2 = 0;
  first.collective[0].ns_per_token *= 4;
  const Machine machine(Costs(), 0.02);
  const CostRefit refit = RunSteps(first, machine, 60);
  EXPECT_GT(refit.costs().quadratic_ns_per_token2, 0.7);
  EXPECT_LT(machine.Error(refit.costs(), 100), 0.04);
}

TEST(CostRefitTest, CostsOfGatheredKeysAndValuesFollowToo) {
  planner::TimeModel truth = Costs();
  truth.collective.clear();
  truth.gather = {{2, 2'000}};
  planner::TimeModel first = truth;
  first.gather[0].ns_per_token *= 3;
  const Machine machine(truth, 0.02);
  const CostRefit refit = RunSteps(first, machine, 60);
  EXPECT_NEAR(refit.costs().gather[0].ns_per_token, 2'000, 100);
  EXPECT_LT(machine.Error(refit.costs(), 100), 0.03);
}

TEST(CostRefitTest, NoCostIsEverNegative) {
  // Time that falls with length: the least squares would like a cost below 0.
  planner::TimeModel truth = Costs();
  truth.micro_batch_fixed_ns = 60'000'000;
  truth.linear_ns_per_token = 0;
  truth.quadratic_ns_per_token2 = 0;
  CostRefit refit(Costs(), TextModel(), {kWorld});
  const Machine machine(truth);
  for (int64_t step = 0; step < 60; ++step) {
    const v1::StepPlan plan = machine.Plan(step);
    std::vector<v1::StepReport> reports = machine.Run(plan);
    for (v1::StepReport& report : reports) {
      for (v1::MicroBatchTime& time : *report.mutable_micro_batches()) {
        const auto length = plan.micro_batches(time.index()).lengths(0);
        time.set_compute_ns(time.compute_ns() - 5'000 * length);
      }
    }
    EXPECT_TRUE(refit.Observe(plan, reports).ok());
    EXPECT_GE(refit.costs().micro_batch_fixed_ns, 0);
    EXPECT_GE(refit.costs().linear_ns_per_token, 0);
    EXPECT_GE(refit.costs().quadratic_ns_per_token2, 0);
    EXPECT_GE(refit.costs().collective_latency_ns, 0);
  }
}

TEST(CostRefitTest, StepsThatAllLookAlikeKeepTheRatioOfCosts) {
  const Machine machine(Costs(1.5));
  CostRefit refit(Costs(), TextModel(), {kWorld});
  for (int64_t step = 1; step < 60; ++step) {
    v1::StepPlan plan = machine.Plan(1);
    plan.set_step(step);
    EXPECT_TRUE(refit.Observe(plan, machine.Run(plan)).ok());
  }
  EXPECT_NEAR(refit.costs().linear_ns_per_token / 8e3, 1.5, 0.05);
  EXPECT_NEAR(refit.costs().quadratic_ns_per_token2 / 1.5, 1.5, 0.1);
}

TEST(CostRefitTest, ADegreeThatNeverRanKeepsItsCost) {
  planner::TimeModel first = Costs();
  first.collective.push_back({4, 900});
  const CostRefit refit = RunSteps(first, Machine(Costs(2)), 40);
  ASSERT_EQ(refit.costs().collective.size(), 2);
  EXPECT_DOUBLE_EQ(refit.costs().collective[1].ns_per_token, 900);
}

TEST(CostRefitTest, OneHiccupMovesLittle) {
  const Machine machine(Costs());
  CostRefit refit = RunSteps(Costs(), machine, 20);
  const v1::StepPlan plan = machine.Plan(20);
  std::vector<v1::StepReport> reports = machine.Run(plan);
  for (v1::MicroBatchTime& time : *reports[0].mutable_micro_batches()) {
    time.set_compute_ns(time.compute_ns() * 1000);
    time.set_collective_ns(time.collective_ns() * 1000);
  }
  EXPECT_TRUE(refit.Observe(plan, reports).ok());
  EXPECT_LT(machine.Error(refit.costs(), 100), 0.1);
}

TEST(CostRefitTest, TheFirstStepsTimesAreNoCosts) {
  const Machine slow(Costs(5));
  const CostRefit refit = RunSteps(Costs(), slow, 1);
  EXPECT_EQ(refit.costs().linear_ns_per_token, 8e3);
  EXPECT_EQ(refit.drift(), 0);
}

TEST(CostRefitTest, ASlowRankIsFoundAndTheCostsAreTheNominalOnes) {
  const Machine machine(Costs(), 0.01, 1.6);
  const CostRefit refit = RunSteps(Costs(), machine, 60);
  const std::vector<double> speeds = refit.RankSpeeds();
  ASSERT_EQ(speeds.size(), 2);
  EXPECT_NEAR(speeds[0], 1, 1e-9);
  EXPECT_NEAR(speeds[1], 1 / 1.6, 0.02);
  EXPECT_NEAR(refit.costs().linear_ns_per_token / 8e3, 1, 0.03);
}

TEST(CostRefitTest, RanksAsFastAsEachOtherHaveNoSpeeds) {
  EXPECT_THAT(RunSteps(Costs(), Machine(Costs(), 0.03), 40).RankSpeeds(),
              IsEmpty());
}

TEST(CostRefitTest, TheSameReportsGiveTheSameBits) {
  const Machine machine(Costs(2), 0.05);
  const planner::TimeModel a = RunSteps(Costs(), machine, 25).costs();
  const planner::TimeModel b = RunSteps(Costs(), machine, 25).costs();
  EXPECT_EQ(a.linear_ns_per_token, b.linear_ns_per_token);
  EXPECT_EQ(a.quadratic_ns_per_token2, b.quadratic_ns_per_token2);
  EXPECT_EQ(a.collective[0].ns_per_token, b.collective[0].ns_per_token);
}

// Clips of either axis, on one rank each, and one that both ranks switch.
v1::StepPlan VideoPlan(int64_t step) {
  const CounterRandom random(9);
  v1::StepPlan plan;
  plan.set_step(step);
  plan.set_world(kWorld);
  const auto add = [&](int first_rank, int degree, int64_t frames,
                       int64_t height) {
    v1::MicroBatch* const clip = plan.add_micro_batches();
    clip->set_first_rank(first_rank);
    clip->set_degree(degree);
    clip->set_sp_mode(degree > 1 ? v1::SP_MODE_SWITCH : v1::SP_MODE_ULYSSES);
    clip->set_ulysses_degree(1);
    // What a token costs outside the layers is told apart by it.
    clip->set_recompute_temporal_layers(static_cast<int32_t>(step % 3));
    v1::ClipShape* const shape = clip->add_shapes();
    shape->set_frames(frames);
    shape->set_height(height);
    shape->set_width(8);
    clip->add_lengths(frames * height * 8);
  };
  const auto drawn = [&](int which, int64_t least) {
    return least + static_cast<int64_t>(random.Bits(step, which) %
                                        static_cast<uint64_t>(least));
  };
  add(0, 2, 2 * drawn(0, 8), drawn(1, 8));
  add(0, 1, 1, drawn(2, 100));
  add(1, 1, drawn(3, 200), 1);
  return plan;
}

// What two spatial and two temporal layers of this cost take, some of the
// temporal ones recomputed.
double VideoNs(const planner::TimeModel& truth, const v1::MicroBatch& clip) {
  const double frames = clip.shapes(0).frames();
  const double patches = 8.0 * clip.shapes(0).height();
  const double redone = 1 + clip.recompute_temporal_layers() / 6.0;
  return static_cast<double>(truth.micro_batch_fixed_ns) +
         frames * patches *
             (truth.spatial.linear_ns_per_token +
              truth.temporal.linear_ns_per_token * redone +
              truth.spatial.quadratic_ns_per_token2 * patches +
              truth.temporal.quadratic_ns_per_token2 * frames * redone) /
             clip.degree();
}

TEST(CostRefitTest, BothKindsOfLayersOfAVideoModelAreFollowed) {
  planner::ModelShape model;
  model.spatial_layers = model.temporal_layers = 2;
  planner::TimeModel truth;
  truth.micro_batch_fixed_ns = 400'000;
  truth.spatial = {3000, 20};
  truth.temporal = {3000, 5};
  truth.collective = {{2, 500}};
  planner::TimeModel first = truth;
  first.spatial = {2000, 4};
  first.temporal = {2000, 16};
  CostRefit refit(first, model, {kWorld});
  for (int64_t step = 0; step < 120; ++step) {
    const v1::StepPlan plan = VideoPlan(step);
    std::vector<v1::StepReport> reports(kWorld);
    for (int rank = 0; rank < kWorld; ++rank) {
      reports[rank].set_rank(rank);
      for (const int index : {0, 1 + rank}) {
        v1::MicroBatchTime* const time = reports[rank].add_micro_batches();
        time->set_index(index);
        time->set_compute_ns(
            std::llround(VideoNs(truth, plan.micro_batches(index))));
      }
    }
    EXPECT_TRUE(refit.Observe(plan, reports).ok());
  }
  const planner::TimeModel& found = refit.costs();
  EXPECT_NEAR(found.spatial.quadratic_ns_per_token2, 20, 1);
  EXPECT_NEAR(found.temporal.quadratic_ns_per_token2, 5, 1);
  EXPECT_NEAR(found.spatial.linear_ns_per_token, 3000, 300);
  EXPECT_EQ(found.spatial.linear_ns_per_token,
            found.temporal.linear_ns_per_token);
  EXPECT_EQ(found.linear_ns_per_token, 0);
}

}  // namespace
}  // namespace evenstep::coordinator
