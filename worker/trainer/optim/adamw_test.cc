#include "worker/trainer/optim/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "evenstep/trainer/initial_values.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"
#include "worker/trainer/optim/update_by_ops.h"

namespace evenstep::trainer {
namespace {

NamedParameter Parameter(std::vector<double> values, bool matrix) {
  at::Tensor value = at::tensor(values, at::kDouble);
  if (matrix) value = value.unsqueeze(0);
  return {"weight", value.requires_grad_(true)};
}

void SetGradient(NamedParameter& p, std::vector<double> values) {
  p.value.mutable_grad() =
      at::tensor(values, at::kDouble).view(p.value.sizes());
}

double At(const NamedParameter& p, int64_t i) {
  return p.value.const_data_ptr<double>()[i];
}

AdamWOptions Options() {
  AdamWOptions options;
  options.schedule = {.peak = 0.1, .total_steps = 1000000};
  options.beta1 = 0.9;
  options.beta2 = 0.99;
  options.epsilon = 1e-8;
  options.weight_decay = 0.5;
  options.clip = 0;
  return options;
}

// Step 1: m = 0.1 g, v = 0.01 g^2, corrected to g and g^2, so the change is lr
// times the sign of g; decay takes lr * 0.5 of the value first.
// Step 2 with g = 1 after g = 2: m = (0.9 * 0.2 + 0.1) / 0.19 = 0.28 / 0.19,
// v = (0.99 * 0.04 + 0.01) / 0.0199 = 0.0496 / 0.0199.
TEST(AdamWTest, TwoStepsByHand) {
  NamedParameter p = Parameter({1.0, -3.0}, /*matrix=*/true);
  AdamW optimizer({p}, Options());
  SetGradient(p, {2.0, -4.0});
  auto first = optimizer.Update(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_DOUBLE_EQ(first->gradient_norm, std::sqrt(20.0));
  EXPECT_DOUBLE_EQ(first->learning_rate, 0.1);
  EXPECT_NEAR(At(p, 0), 1.0 * 0.95 - 0.1, 1e-9);
  EXPECT_NEAR(At(p, 1), -3.0 * 0.95 + 0.1, 1e-9);
  SetGradient(p, {1.0, 0.0});
  ASSERT_TRUE(optimizer.Update(1).ok());
  const double ratio = (0.28 / 0.19) / std::sqrt(0.0496 / 0.0199);
  EXPECT_NEAR(At(p, 0), 0.85 * 0.95 - 0.1 * ratio, 1e-7);
}

TEST(AdamWTest, VectorsDoNotDecay) {
  NamedParameter p = Parameter({1.0}, /*matrix=*/false);
  AdamW optimizer({p}, Options());
  SetGradient(p, {2.0});
  ASSERT_TRUE(optimizer.Update(0).ok());
  EXPECT_NEAR(At(p, 0), 0.9, 1e-9);
}

// The norm is over all parameters: 3, 4 and 12 give 13; a bound of 6.5 halves
// every gradient. The state shows it: the second update has gradient 0, so only
// m and v of the first count, and their ratio does not depend on the scale;
// hence epsilon is made large enough to see it.
TEST(AdamWTest, ClippingScalesByTheGlobalNorm) {
  AdamWOptions options = Options();
  options.weight_decay = 0;
  options.epsilon = 1.0;
  options.clip = 6.5;
  NamedParameter a = Parameter({0.0, 0.0}, true);
  NamedParameter b = Parameter({0.0}, true);
  AdamW optimizer({a, b}, options);
  SetGradient(a, {3.0, 4.0});
  SetGradient(b, {12.0});
  auto result = optimizer.Update(0);
  ASSERT_TRUE(result.ok());
  EXPECT_DOUBLE_EQ(result->gradient_norm, 13.0);
  EXPECT_NEAR(At(a, 0), -0.1 * 1.5 / 2.5, 1e-12);
  EXPECT_NEAR(At(b, 0), -0.1 * 6.0 / 7.0, 1e-12);
}

TEST(AdamWTest, AGradientBelowTheBoundIsLeftAlone) {
  AdamWOptions options = Options();
  options.weight_decay = 0;
  options.epsilon = 1.0;
  options.clip = 6.5;
  NamedParameter p = Parameter({0.0}, true);
  AdamW optimizer({p}, options);
  SetGradient(p, {3.0});
  ASSERT_TRUE(optimizer.Update(0).ok());
  EXPECT_NEAR(At(p, 0), -0.1 * 3.0 / 4.0, 1e-12);
}

TEST(AdamWTest, ANotFiniteGradientChangesNothing) {
  NamedParameter a = Parameter({1.0}, true);
  NamedParameter b = Parameter({1.0}, true);
  AdamW optimizer({a, b}, Options());
  SetGradient(a, {1.0});
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    SetGradient(b, {bad});
    EXPECT_EQ(optimizer.Update(0).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(At(a, 0), 1.0);
    EXPECT_EQ(At(b, 0), 1.0);
  }
  // The state is untouched too: the next update is a first one.
  SetGradient(b, {1.0});
  ASSERT_TRUE(optimizer.Update(0).ok());
  EXPECT_NEAR(At(a, 0), 0.95 - 0.1, 1e-9);
}

TEST(AdamWTest, AMissingGradientIsAnError) {
  AdamW optimizer({Parameter({1.0}, true)}, Options());
  EXPECT_EQ(optimizer.Update(0).status().code(), absl::StatusCode::kInternal);
}

// What a device runs, against the loop for the host: two updates.
TEST(AdamWTest, OperatorsUpdateAsTheLoopDoes) {
  AdamWOptions options = Options();
  options.clip = 0;
  NamedParameter by_loop = Parameter({1.0, -2.0, 3.0}, true);
  AdamW optimizer({by_loop}, options);
  const at::Tensor value = by_loop.value.detach().clone();
  const at::Tensor mean = at::zeros_like(value);
  const at::Tensor square = at::zeros_like(value);
  for (int step = 0; step < 2; ++step) {
    by_loop.value.mutable_grad() = at::full_like(value, 0.5 - step);
    const auto update = optimizer.Update(step);
    ASSERT_TRUE(update.ok()) << update.status();
    UpdateFactors factors;
    factors.beta1 = options.beta1;
    factors.beta2 = options.beta2;
    factors.step_size =
        update->learning_rate / (1.0 - std::pow(options.beta1, step + 1));
    factors.square_correction = 1.0 / (1.0 - std::pow(options.beta2, step + 1));
    factors.epsilon = options.epsilon;
    factors.decay = value.dim() < 2
                        ? 1.0
                        : 1.0 - update->learning_rate * options.weight_decay;
    UpdateByOps(factors, by_loop.value.grad(), mean, square, value);
    EXPECT_LT(at::sub(value, by_loop.value.detach()).abs().max().item<double>(),
              1e-12);
  }
}

// Parameters of 7 + 10 elements over three ranks: runs end within tensors.
std::vector<NamedParameter> TwoParameters(at::ScalarType type) {
  std::vector<NamedParameter> parameters;
  for (const auto& [name, sizes] :
       std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"a", {7}}, {"b", {2, 5}}}) {
    at::Tensor value = at::empty(sizes, type);
    FillNormal(1, name, 1.0, value);
    parameters.push_back({name, value.requires_grad_(true)});
  }
  return parameters;
}

at::Tensor GradientOf(const std::string& name, int64_t step,
                      const at::Tensor& like, at::ScalarType type) {
  at::Tensor gradient = at::empty(like.sizes(), type);
  FillNormal(100 + step, name, 2.0, gradient);
  return gradient;
}

void SetGradients(const std::vector<NamedParameter>& parameters, int64_t step,
                  at::ScalarType type) {
  for (const NamedParameter& p : parameters) {
    p.value.set_grad_dtype(type);
    at::Tensor(p.value).mutable_grad() =
        GradientOf(p.name, step, p.value, type);
  }
}

// Ten updates on three ranks with split states against one whole optimizer:
// clipping included, since the norm of 17 such gradients is about 8.
void ExpectShardsDoTheSame(at::ScalarType type, at::ScalarType gradient_type) {
  AdamWOptions options = Options();
  options.clip = 1.0;
  const auto whole = TwoParameters(type);
  AdamW one(whole, options);
  double norm = 0;
  for (int64_t step = 0; step < 10; ++step) {
    SetGradients(whole, step, gradient_type);
    norm = one.Update(step)->gradient_norm;
  }
  InProcessHub hub;
  const auto statuses = testing::RunRanks(3, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto world, factory->Create("w", {0, 3}, rank));
    const auto parameters = TwoParameters(type);
    AdamW optimizer(parameters, options, world.get());
    EXPECT_LE(optimizer.state_bytes(), one.state_bytes() / 3 + 24);
    UpdateResult result;
    for (int64_t step = 0; step < 10; ++step) {
      SetGradients(parameters, step, gradient_type);
      EVENSTEP_ASSIGN_OR_RETURN(result, optimizer.Update(step));
    }
    EXPECT_NEAR(result.gradient_norm, norm, 1e-12 * norm);
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::allclose(parameters[i].value, whole[i].value, 1e-12));
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(ShardedAdamWTest, SplitStatesMakeTheSameUpdate) {
  ExpectShardsDoTheSame(at::kDouble, at::kDouble);
}

TEST(ShardedAdamWTest, SplitMastersMakeTheSameUpdate) {
  ExpectShardsDoTheSame(at::kBFloat16, at::kFloat);
}

// Fewer elements than ranks: some have nothing to update, and take part.
TEST(ShardedAdamWTest, ARankMayHaveNoElements) {
  InProcessHub hub;
  const auto statuses = testing::RunRanks(4, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto world, factory->Create("w", {0, 4}, rank));
    NamedParameter p = Parameter({1.0, 1.0}, /*matrix=*/true);
    AdamW optimizer({p}, Options(), world.get());
    SetGradient(p, {2.0, -2.0});
    EVENSTEP_RETURN_IF_ERROR(optimizer.Update(0).status());
    EXPECT_NEAR(At(p, 0), 0.85, 1e-9);
    EXPECT_NEAR(At(p, 1), 1.05, 1e-9);
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

// One rank's run is not finite: none updates.
TEST(ShardedAdamWTest, ANotFiniteShardStopsAllRanks) {
  InProcessHub hub;
  testing::RunRanks(2, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto world, factory->Create("w", {0, 2}, rank));
    NamedParameter p = Parameter({1.0, 1.0}, true);
    AdamW optimizer({p}, Options(), world.get());
    SetGradient(p, {2.0, std::numeric_limits<double>::infinity()});
    EXPECT_EQ(optimizer.Update(0).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(At(p, 0), 1.0);
    return absl::OkStatus();
  });
}

// A change of 0.001 of 1 is below bfloat16's digits (1/256): the master keeps
// what the parameter cannot show, until it can.
TEST(AdamWTest, MastersKeepUpdatesThatBFloat16WouldLose) {
  AdamWOptions options = Options();
  options.schedule.peak = 1e-3;
  options.weight_decay = 0;
  NamedParameter p = {"w", at::ones({1}, at::kBFloat16).requires_grad_(true)};
  AdamW optimizer({p}, options);
  p.value.set_grad_dtype(at::kFloat);
  for (int64_t step = 0; step < 10; ++step) {
    p.value.mutable_grad() = at::ones({1}, at::kFloat);
    ASSERT_TRUE(optimizer.Update(step).ok());
    if (step == 0) {
      EXPECT_EQ(p.value.item().toFloat(), 1.0F);
    }
  }
  EXPECT_NEAR(p.value.item().toFloat(), 0.99, 0.002);
}

TEST(ShardingTest, RunsCoverAllElementsOnce) {
  for (int world : {1, 2, 3, 7}) {
    int64_t next = 0;
    for (int rank = 0; rank < world; ++rank) {
      const ElementRange own = ShardOf(17, world, rank);
      EXPECT_EQ(own.begin, next);
      EXPECT_LE(own.size(), 17 / world + 1);
      next = own.end;
    }
    EXPECT_EQ(next, 17);
  }
}

TEST(ScheduleTest, WarmUpIsLinearAndEndsAtThePeak) {
  const Schedule schedule{.peak = 2.0, .warmup_steps = 4, .total_steps = 13};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 3), 2.0);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 4), 2.0);
}

TEST(ScheduleTest, TheCosineIsHalfWayInTheMiddleAndStaysAtItsEnd) {
  const Schedule schedule{
      .peak = 2.0, .warmup_steps = 4, .total_steps = 13, .final_share = 0.1};
  EXPECT_NEAR(LearningRate(schedule, 8), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRate(schedule, 12), 0.2, 1e-12);
  EXPECT_NEAR(LearningRate(schedule, 99), 0.2, 1e-12);
}

TEST(ScheduleTest, AWarmUpAsLongAsTheJobIsFine) {
  const Schedule schedule{.peak = 1.0, .warmup_steps = 3, .total_steps = 3};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2), 1.0);
}

}  // namespace
}  // namespace evenstep::trainer
