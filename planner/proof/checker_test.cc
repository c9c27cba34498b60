// The checker passes every plan that the policies make, and catches every
// corruption that is planted in one.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/planner.h"
#include "planner/proof/checker_formulas.h"
#include "planner/testing/corruptions.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

constexpr Policy kPolicies[] = {Policy::kStatic,   Policy::kBalanced,
                                Policy::kPacked,   Policy::kEven,
                                Policy::kBucket,   Policy::kBucketTuned,
                                Policy::kDcpInter, Policy::kDcpIntra};
constexpr uint64_t kNumRequests = 2000;

// By the checker's own formulas.
bool FitsAt(const PlanRequest& request, int index, int degree,
            const LayerCounts& mode) {
  MicroBatch batch;
  batch.degree = degree;
  batch.samples = {index};
  batch.recompute_layers = mode;
  if (auto sharing = checker::SharingAt(request.model, degree)) {
    batch.sp_mode = sharing->mode;
  }
  const auto padded = checker::PaddedTokensOf(request, batch);
  return padded.has_value() &&
         *padded / degree <= checker::TokensARankHolds(request, batch);
}

bool EverySampleFitsSomewhere(const PlanRequest& request) {
  const std::vector<LayerCounts> modes = RecomputeModes(request);
  for (size_t i = 0; i < request.samples.size(); ++i) {
    bool fits = false;
    for (int degree : LegalDegrees(request)) {
      for (const LayerCounts& mode : modes) {
        fits = fits || FitsAt(request, static_cast<int>(i), degree, mode);
      }
    }
    if (!fits) return false;
  }
  return true;
}

// All samples, and the longest of the run, at one degree and in one mode.
bool OneDegreeFits(PlanRequest request, const LayerCounts& mode) {
  if (request.run.max_length > 0) {
    request.samples.push_back({-1, request.run.max_length, 0});
  }
  for (int degree : LegalDegrees(request)) {
    bool fits = true;
    for (size_t i = 0; i < request.samples.size() && fits; ++i) {
      fits = FitsAt(request, static_cast<int>(i), degree, mode);
    }
    if (fits) return true;
  }
  return false;
}

bool ShouldFit(const PlanRequest& request) {
  const std::vector<LayerCounts> modes = RecomputeModes(request);
  switch (request.options.policy) {
    case Policy::kEven:
    case Policy::kDcpInter:
    case Policy::kDcpIntra:
      return EverySampleFitsSomewhere(request);
    case Policy::kBucketTuned:
      return std::any_of(modes.begin(), modes.end(), [&](const auto& mode) {
        return OneDegreeFits(request, mode);
      });
    case Policy::kBucket:
      return OneDegreeFits(request, modes.back());
    default:
      return OneDegreeFits(request, request.options.recompute_layers);
  }
}

// Every sync mode and block shape in turn.
PlanRequest RandomRequestOf(uint64_t seed) {
  PlanRequest request = testing::RandomRequest(seed, {});
  if (seed % 10 != 0) request.options.work_budget = 500;
  request.options.sync =
      seed % 2 == 0 ? SyncMode::kPerStep : SyncMode::kPerRound;
  request.options.blocks =
      seed % 3 == 0 ? BlockShape::kContiguous : BlockShape::kAligned;
  if (seed % 5 == 3) return testing::AsVideo(request, seed);
  if (seed % 4 == 1) request = testing::WithRecomputeChoices(request);
  if (seed % 5 == 2) request = testing::WithSpModes(request, seed);
  if (seed % 7 == 0) request.options.max_groups_per_rank = 1 + seed % 3;
  return request;
}

class CheckerPolicyTest : public ::testing::TestWithParam<Policy> {};

TEST_P(CheckerPolicyTest, PassesEveryPlanOfThousandsOfRandomRequests) {
  int planned = 0;
  for (uint64_t seed = 0; seed < kNumRequests; ++seed) {
    PlanRequest request = RandomRequestOf(seed);
    request.options.policy = GetParam();
    if (GetParam() == Policy::kDcpInter || GetParam() == Policy::kDcpIntra) {
      request.options.max_groups_per_rank = 0;
    }
    auto plan = MakePlan(request);
    ASSERT_EQ(plan.ok(), ShouldFit(request))
        << "seed " << seed << ": " << plan.status();
    if (!plan.ok()) {
      ASSERT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ++planned;
    const absl::Status verdict = CheckPlan(request, *plan);
    ASSERT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict;
  }
  EXPECT_GT(planned, static_cast<int>(kNumRequests) / 2);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, CheckerPolicyTest,
                         ::testing::ValuesIn(kPolicies), [](const auto& info) {
                           const auto name = PolicyName(info.param);
                           std::string text(name.data(), name.size());
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST(CheckerTest, CatchesEveryPlantedCorruption) {
  std::map<std::string, int> planted;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PlanRequest request = RandomRequestOf(seed);
    request.options.policy = request.options.recompute_choices.empty()
                                 ? kPolicies[seed / 6 % 8]
                                 : Policy::kEven;
    auto plan = MakePlan(request);
    if (!plan.ok()) continue;
    for (const auto& corruption : testing::AllCorruptions()) {
      Plan corrupted = *plan;
      if (!corruption.apply(request, corrupted)) continue;
      ++planted[corruption.name];
      EXPECT_EQ(CheckPlan(request, corrupted).code(),
                absl::StatusCode::kInternal)
          << corruption.name << " passed, seed " << seed;
    }
  }
  for (const auto& corruption : testing::AllCorruptions()) {
    EXPECT_GE(planted[corruption.name], 8) << corruption.name;
  }
}

TEST(CheckerTest, CountsTheGroupsOfEveryRank) {
  PlanRequest request =
      testing::SimpleRequest(8, 100, {700, 350, 350, 180, 180, 180, 180});
  request.time.collective = {{2, 1e5}, {4, 3e5}, {8, 5e5}};
  request.options.max_groups_per_rank = 3;
  Plan plan = *MakePlan(request);
  ASSERT_TRUE(CheckPlan(request, plan).ok()) << CheckPlan(request, plan);
  request.options.max_groups_per_rank = 1;
  const absl::Status verdict = CheckPlan(request, plan);
  EXPECT_EQ(verdict.code(), absl::StatusCode::kInternal) << verdict;
  plan = *MakePlan(request);
  EXPECT_TRUE(CheckPlan(request, plan).ok()) << CheckPlan(request, plan);
}

TEST(CheckerTest, DegreesThatWereNotAskedForAreRefused) {
  PlanRequest request = testing::SimpleRequest(4, 100, {150, 90, 80, 70, 60});
  request.options.degrees = {2};
  const Plan pairs = *MakePlan(request);
  ASSERT_TRUE(CheckPlan(request, pairs).ok()) << CheckPlan(request, pairs);
  EXPECT_TRUE(std::any_of(pairs.micro_batches.begin(),
                          pairs.micro_batches.end(),
                          [](const auto& batch) { return batch.degree == 2; }));
  request.options.degrees = {4};
  const absl::Status verdict = CheckPlan(request, pairs);
  EXPECT_EQ(verdict.code(), absl::StatusCode::kInternal) << verdict;
}

TEST(CheckerTest, RefusesABadRequestBeforeLookingAtThePlan) {
  PlanRequest request = testing::SimpleRequest(2, 10, {5});
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  request.samples[0].length = 0;
  EXPECT_EQ(CheckPlan(request, *plan).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace evenstep::planner
