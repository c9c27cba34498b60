#include "worker/trainer/parallel/gradient_buffer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "base/status_macros.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kWorld = 2;
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Three values and two.
std::vector<NamedParameter> Parameters(at::ScalarType type) {
  return {{"a", at::ones({3}, type).requires_grad_(true)},
          {"b", at::ones({1, 2}, type).requires_grad_(true)}};
}

// Runs `body` on the world of each of two ranks.
std::vector<absl::Status> OnTwoRanks(
    const std::function<absl::Status(Communicator& world)>& body) {
  InProcessHub hub;
  return testing::RunRanks(kWorld, [&](int rank) -> absl::Status {
    const auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(const auto groups,
                              GroupTree::Build(*factory, 1, rank, kWorld));
    return body(groups->world());
  });
}

TEST(GradientBufferTest, ValuesThatAreNotFiniteAreCountedOneByOne) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto parameters = Parameters(type);
    const GradientBuffer buffer(parameters);
    EXPECT_EQ(buffer.CountNotFinite(), 0);
    parameters[0].value.grad()[2].fill_(kNotANumber);
    parameters[1].value.grad()[0][1].fill_(-kInfinite);
    EXPECT_EQ(buffer.CountNotFinite(), 2);
  }
}

TEST(GradientBufferTest, BackwardAddsIntoTheBufferInItsOwnType) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto parameters = Parameters(type);
    GradientBuffer buffer(parameters);
    for (int pass = 0; pass < 2; ++pass) {
      parameters[0].value.mul(3).sum().backward();
      parameters[1].value.mul(5).sum().backward();
    }
    const at::Tensor& a = parameters[0].value.grad();
    EXPECT_EQ(a.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    EXPECT_TRUE(a.eq(6).all().item<bool>());
    EXPECT_TRUE(parameters[1].value.grad().eq(10).all().item<bool>());
    buffer.Zero();
    EXPECT_TRUE(a.eq(0).all().item<bool>());
  }
}

TEST(GradientBufferTest, TheSumIsWholeOrOfTheRanksOwnRun) {
  for (const Sharding sharding : {Sharding::kNone, Sharding::kZero1}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const auto statuses = OnTwoRanks([&](Communicator& world) {
        const auto parameters = Parameters(type);
        GradientBuffer buffer(parameters);
        // Rank 0 adds 1 .. 5, rank 1 ten times as much.
        for (int i = 0; i < 5; ++i) {
          const double value = (i + 1) * (world.rank() == 0 ? 1 : 10);
          if (i < 3) parameters[0].value.grad()[i].fill_(value);
          if (i >= 3) parameters[1].value.grad()[0][i - 3].fill_(value);
        }
        absl::Status status = buffer.Reduce(world, sharding);
        const bool whole = sharding == Sharding::kNone;
        const int first = whole || world.rank() == 0 ? 0 : 3;
        const int end = whole || world.rank() == 1 ? 5 : 3;
        for (int i = first; i < end; ++i) {
          const at::Tensor& grad = parameters[i < 3 ? 0 : 1].value.grad();
          EXPECT_EQ(grad.view({-1})[i < 3 ? i : i - 3].item<double>(),
                    11 * (i + 1));
        }
        return status;
      });
      EXPECT_THAT(statuses, Each(absl::OkStatus()));
    }
  }
}

TEST(GradientBufferTest, AReductionThatFailsIsAnError) {
  for (const Sharding sharding : {Sharding::kNone, Sharding::kZero1}) {
    const auto statuses = OnTwoRanks([&](Communicator& world) {
      const auto parameters = Parameters(at::kFloat);
      GradientBuffer buffer(parameters);
      world.Abort("planted");
      return buffer.Reduce(world, sharding);
    });
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    }
  }
}

TEST(GradientBufferTest, AGradientThatLeftTheBufferIsNamed) {
  const auto statuses = OnTwoRanks([&](Communicator& world) {
    const auto parameters = Parameters(at::kFloat);
    GradientBuffer buffer(parameters);
    const at::Tensor b = parameters[1].value;
    b.mutable_grad() = b.grad().clone();
    return buffer.Reduce(world, Sharding::kNone);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("gradient of b"));
  }
}

}  // namespace
}  // namespace evenstep::trainer
