// Whatever the reports say, the next step can be planned: random first costs,
// lengths and times, absurd ones included, through the fit, the steps and
// the planner.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "coordinator/steps/cost_refit.h"
#include "coordinator/steps/job_steps.h"
#include "gtest/gtest.h"
#include "planner/costs/cost_limits.h"
#include "planner/planner.h"
#include "planner/validate.h"

namespace evenstep::coordinator {
namespace {

constexpr int kSteps = 12;
constexpr int64_t kDayNs = 86'400'000'000'000;

// Draws that are told apart by their place in the code.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t n) {
    return static_cast<int64_t>(random_.Bits(count_++) %
                                static_cast<uint64_t>(n));
  }
  // Any power of ten from 1 to 10^most, and what lies between.
  double Spread(double most) {
    return std::pow(10.0, most * random_.Uniform(count_++));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }

 private:
  const CounterRandom random_;
  uint64_t count_ = 0;
};

enum class Lengths { kOne, kTiny, kMixed, kLong, kCount };
enum class Times {
  kZero,      // nothing was timed
  kConstant,  // whatever the length
  kNoise,     // of a busy machine
  kFalling,   // the longer, the shorter
  kSquare,    // more than any cost may be
  kSpread,    // from a nanosecond to a day
  kLongest,   // what the message holds
  kCount
};

struct Case {
  jobspec::JobSpec spec;
  planner::TimeModel first;
  Lengths lengths;
  Times times;
  bool absurd;  // times of more than a day
};

planner::TimeModel RandomFirst(bool video, Draws& draws) {
  const auto cost = [&draws](double most) {
    return draws.OneIn(2) ? 0 : draws.Spread(most) / 10;
  };
  planner::TimeModel time;
  time.micro_batch_fixed_ns = std::llround(cost(8));
  time.collective_latency_ns = std::llround(cost(6));
  time.step_fixed_ns = std::llround(cost(8));
  time.head_ns_per_token = cost(4);
  if (draws.OneIn(2)) time.collective = {{2, cost(5)}, {4, cost(5)}};
  if (video) {
    time.spatial = {cost(5), cost(3)};
    time.temporal = {cost(5), cost(3)};
  } else {
    time.linear_ns_per_token = cost(5);
    time.quadratic_ns_per_token2 = cost(3);
  }
  return time;
}

Case RandomCase(uint64_t seed) {
  Draws draws(seed);
  Case drawn;
  jobspec::JobSpec& spec = drawn.spec;
  const bool video = draws.OneIn(3);
  spec.ranks = 1 << draws.Below(3);
  spec.batch_samples = spec.ranks + draws.Below(6);
  spec.steps = kSteps;
  spec.model.kind =
      video ? jobspec::ModelKind::kVideo : jobspec::ModelKind::kText;
  spec.model.layers = draws.OneIn(2) ? 2 : 32;
  spec.model.width = 32;
  spec.model.heads = spec.model.kv_heads = 4;
  drawn.lengths =
      static_cast<Lengths>(draws.Below(static_cast<int64_t>(Lengths::kCount)));
  drawn.times =
      static_cast<Times>(draws.Below(static_cast<int64_t>(Times::kCount)));
  drawn.absurd = drawn.times == Times::kLongest;
  spec.data.max_length = drawn.lengths == Lengths::kLong ? 1 << 20 : 4096;
  spec.memory.tokens_per_rank = spec.data.max_length;
  drawn.first = RandomFirst(video, draws);
  return drawn;
}

int64_t DrawLength(Lengths law, Draws& draws) {
  switch (law) {
    case Lengths::kOne:
      return 48;
    case Lengths::kTiny:
      return 1 + draws.Below(63);
    case Lengths::kLong:
      return 8 * (1 + draws.Below(1 << 17));
    default:
      return 1 + std::llround(draws.Spread(3.6)) % 4096;
  }
}

v1::LengthReport ReportLengths(const Case& drawn, int rank, int64_t step,
                               Draws& draws) {
  const jobspec::JobSpec& spec = drawn.spec;
  v1::LengthReport report;
  report.set_step(step);
  report.set_rank(rank);
  for (int64_t at = rank; at < spec.batch_samples; at += spec.ranks) {
    int64_t length = DrawLength(drawn.lengths, draws);
    if (spec.model.is_video()) {
      v1::ClipShape* const shape = report.add_shapes();
      const int64_t frames = length < 8 ? 1 : 4;
      shape->set_frames(frames);
      shape->set_height(length / frames);
      shape->set_width(1);
      length = length / frames * frames;
    }
    report.add_sample_ids(step * spec.batch_samples + at);
    report.add_lengths(length);
    report.add_trained_tokens(length);
  }
  return report;
}

int64_t DrawTime(Times law, int64_t tokens, Draws& draws) {
  const auto length = static_cast<double>(tokens);
  switch (law) {
    case Times::kZero:
      return 0;
    case Times::kConstant:
      return 5'000'000;
    case Times::kNoise:
      return std::llround(1e5 + 1e3 * length + draws.Spread(8));
    case Times::kFalling:
      return std::llround(1e12 / length);
    case Times::kSquare:
      return std::llround(std::min(1e5 * length * length, 1e13));
    case Times::kSpread:
      return std::llround(draws.Spread(std::log10(kDayNs)));
    default:
      return draws.OneIn(3) ? 0 : std::numeric_limits<int64_t>::max();
  }
}

std::vector<v1::StepReport> ReportSteps(const Case& drawn,
                                        const v1::StepPlan& plan,
                                        Draws& draws) {
  std::vector<v1::StepReport> reports(plan.world());
  for (int rank = 0; rank < plan.world(); ++rank) {
    v1::StepReport& report = reports[rank];
    report.set_rank(rank);
    report.set_reduction_ns(DrawTime(drawn.times, 1000, draws));
    report.set_update_compute_ns(DrawTime(drawn.times, 1000, draws));
    for (int i = 0; i < plan.micro_batches_size(); ++i) {
      const v1::MicroBatch& micro_batch = plan.micro_batches(i);
      if (rank < micro_batch.first_rank() ||
          rank >= micro_batch.first_rank() + micro_batch.degree()) {
        continue;
      }
      int64_t tokens = 0;
      for (const int64_t length : micro_batch.lengths()) tokens += length;
      v1::MicroBatchTime* const time = report.add_micro_batches();
      time->set_index(i);
      time->set_compute_ns(DrawTime(drawn.times, tokens, draws));
      time->set_collective_ns(DrawTime(drawn.times, tokens, draws));
    }
  }
  return reports;
}

// Runs the case; how many steps needed earlier costs.
int RunCase(const Case& drawn, uint64_t seed) {
  Draws draws(seed + 1'000'000);
  const jobspec::JobSpec& spec = drawn.spec;
  const planner::ModelShape model = jobspec::ToModelShape(spec.model);
  // As costs that rank 0 has measured.
  const planner::TimeModel first = planner::PlannableCosts(drawn.first, model);
  JobSteps steps(spec, {spec.ranks}, 1);
  steps.SetCosts(first);
  steps.OpenForData();
  CostRefit refit(first, model, {spec.ranks});
  int num_refused = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < spec.ranks; ++rank) {
      const absl::Status added =
          steps.AddLengths(ReportLengths(drawn, rank, step, draws));
      EXPECT_TRUE(added.ok()) << added;
    }
    auto work = steps.NextWork();
    if (!work.has_value()) {
      ADD_FAILURE() << "no work for step " << step;
      return num_refused;
    }
    PlanOutcome outcome = PlanStep(*work, planner::RealPlanner(), RealClock());
    num_refused += outcome.estimate_refusal.ok() ? 0 : 1;
    if (!outcome.estimate_refusal.ok() && !drawn.absurd) {
      ADD_FAILURE() << "step " << step << ": " << outcome.estimate_refusal;
    }
    const auto plan = steps.Accept(std::move(outcome));
    if (!plan.ok()) {
      ADD_FAILURE() << "step " << step << ": " << plan.status();
      return num_refused;
    }
    const absl::Status followed =
        refit.Observe(**plan, ReportSteps(drawn, **plan, draws));
    EXPECT_TRUE(followed.ok()) << followed;
    EXPECT_TRUE(planner::ValidateTime(refit.costs()).ok());
    EXPECT_TRUE(planner::ValidateRankSpeeds(refit.RankSpeeds()).ok());
    EXPECT_TRUE(std::isfinite(refit.drift()));
    steps.SetCosts(refit.costs());
    steps.SetRankSpeeds(refit.RankSpeeds());
    steps.Forget(step);
  }
  return num_refused;
}

TEST(CostRefitRandomTest, EveryStepIsPlannedWhateverTheReportsSay) {
  int num_refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    num_refused += RunCase(RandomCase(seed), seed);
    if (::testing::Test::HasFailure()) return;
  }
  // Or the way back to earlier costs is not tried.
  EXPECT_GT(num_refused, 0);
}

// The case that ended valid jobs on a busy machine: documents of up to 64
// tokens, whose times are those of the neighbours.
TEST(CostRefitRandomTest, TinyStepsOnABusyMachineStayWithinLimits) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Case drawn = RandomCase(seed);
    drawn.spec.model.kind = jobspec::ModelKind::kText;
    drawn.first = {};
    drawn.first.micro_batch_fixed_ns = 3'000'000;
    drawn.first.linear_ns_per_token = 2000;
    drawn.lengths = Lengths::kTiny;
    drawn.spec.data.max_length = drawn.spec.memory.tokens_per_rank = 64;
    drawn.times = Times::kNoise;
    drawn.absurd = false;
    ASSERT_EQ(RunCase(drawn, seed), 0);
  }
}

}  // namespace
}  // namespace evenstep::coordinator
