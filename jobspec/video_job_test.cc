// Jobs of video models: their keys, their rules, and what the planner is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "jobspec/job_spec.h"
#include "jobspec/plan_request.h"
#include "planner/costs/memory_model.h"

namespace evenstep::jobspec {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = R"(name: video
model:
  kind: video
  layers: 6
  width: 64
  heads: 4
  channels: 3
  patch: 2
  sp_modes: switch, ulysses
  max_switch_degree: 4
data: {source: "latents:/clips", max_length: 512, given_frames: 0.25}
memory: {recompute_layers: 1, recompute_temporal_layers: 3}
costs:
  micro_batch_fixed_ns: 1
  linear_ns_per_token: 0
  quadratic_ns_per_token2: 0
  collective_latency_ns: 2
  step_fixed_ns: 3
  spatial_linear_ns_per_token: 4
  spatial_quadratic_ns_per_token2: 5
  temporal_linear_ns_per_token: 6
  temporal_quadratic_ns_per_token2: 7
)";

JobSpec Good() {
  const auto spec = ParseJobFile(kJob, {});
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

TEST(VideoJobTest, KeysSurviveWritingAndReading) {
  const JobSpec spec = Good();
  EXPECT_TRUE(spec.model.is_video());
  EXPECT_EQ(spec.data.given_frames, 0.25);
  EXPECT_EQ(spec.costs->temporal.quadratic_ns_per_token2, 7);
  const std::string written = FormatJobFile(spec);
  const auto again = ParseJobFile(written, {});
  ASSERT_TRUE(again.ok()) << again.status() << written;
  EXPECT_EQ(FormatJobFile(*again), written);
}

TEST(VideoJobTest, TextJobsAreWrittenWithoutKeysOfVideo) {
  JobSpec spec;
  EXPECT_THAT(FormatJobFile(spec), Not(HasSubstr("patch")));
  EXPECT_THAT(FormatJobFile(spec), Not(HasSubstr("temporal")));
}

TEST(VideoJobTest, ThePlannerIsToldOfBothKindsOfLayer) {
  const JobSpec spec = Good();
  const planner::ModelShape shape = ToModelShape(spec.model);
  EXPECT_TRUE(shape.is_video());
  EXPECT_EQ(shape.layers(), planner::LayerCounts(3, 3));
  EXPECT_EQ(shape.max_switch_degree, 4);
  EXPECT_EQ(ToRecomputeLayers(spec.memory), planner::LayerCounts(1, 3));
  const data::DatasetOptions data = ToDatasetOptions(spec);
  EXPECT_EQ(data.source, "latents:/clips");
  EXPECT_EQ(data.patch, 2);
  EXPECT_EQ(data.channels, 3);
}

TEST(VideoJobTest, ThePlanChoosesOfEitherKindInHalves) {
  JobSpec spec = Good();
  spec.memory = {.recompute = Recompute::kPlan};
  ASSERT_TRUE(ValidateJobSpec(spec).ok()) << ValidateJobSpec(spec);
  const planner::PlanRequest request = ToPlanRequest(spec);
  const std::vector<planner::LayerCounts> modes =
      planner::RecomputeModes(request);
  EXPECT_EQ(modes.size(), 9u);
  EXPECT_EQ(modes.front(), planner::LayerCounts(0, 0));
  EXPECT_EQ(modes.back(), planner::LayerCounts(3, 3));
  EXPECT_NE(std::find(modes.begin(), modes.end(), planner::LayerCounts(1, 3)),
            modes.end());
  // As many tokens as the job says with nothing recomputed, more with all.
  EXPECT_EQ(planner::TokensPerRank(request, modes.front()),
            spec.memory.tokens_per_rank);
  EXPECT_GT(planner::TokensPerRank(request, modes.back()),
            2 * spec.memory.tokens_per_rank);
}

TEST(VideoJobTest, EveryRuleNamesItsKeyAndTheNumbers) {
  const struct {
    std::function<void(JobSpec&)> change;
    const char* message;
  } cases[] = {
      {[](JobSpec& s) { s.model.layers = 5; }, "model.layers: 5 is odd"},
      {[](JobSpec& s) { s.model.width = 24; }, "a multiple of 4"},
      {[](JobSpec& s) { s.model.kv_heads = 2; }, "model.kv_heads: 2 of 4"},
      {[](JobSpec& s) { s.model.channels = 0; }, "model.channels: 0"},
      {[](JobSpec& s) { s.model.patch = 65; }, "model.patch: 65"},
      {[](JobSpec& s) { s.model.sp_modes = {planner::SpMode::kKvGather}; },
       "kv_gather is not for video models"},
      {[](JobSpec& s) { s.model.kind = ModelKind::kText; }, "model.kind: "},
      {[](JobSpec& s) { s.data.source = "text:/x"; }, "data.source: 'text:/x'"},
      {[](JobSpec& s) { s.data.given_frames = 1.5; }, "data.given_frames: 1.5"},
      {[](JobSpec& s) { s.memory.recompute_layers = 4; },
       "memory.recompute_layers: 4 is not in 0 to 3"},
      {[](JobSpec& s) { s.memory.recompute_temporal_layers = 4; },
       "memory.recompute_temporal_layers: 4 is not in 0 to 3"},
      {[](JobSpec& s) {
         s.memory.recompute = Recompute::kPlan;
         s.policy = planner::Policy::kStatic;
       },
       "memory.recompute: plan: the policy static does not choose"},
      {[](JobSpec& s) { s.costs->temporal = s.costs->spatial = {}; },
       "the costs are of a text model, the job's is video"},
  };
  for (const auto& [change, message] : cases) {
    JobSpec spec = Good();
    change(spec);
    EXPECT_THAT(std::string(ValidateJobSpec(spec).message()),
                HasSubstr(message));
  }
}

}  // namespace
}  // namespace evenstep::jobspec
