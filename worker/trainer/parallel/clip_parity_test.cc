// Law 2 for video: every plan's gradient equals that of one process over the
// same clips, whose noise, timesteps and given frames are the same whatever the
// plan. The oracle is the slow model of testing/clip_oracle.h; float64.

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using planner::SpMode;
using testing::BackEnd;
using testing::ExpectParity;
using testing::MustRun;
using testing::ParityOptions;
using testing::ParityReport;
using testing::RunParity;
using testing::SmallVideoConfig;
using testing::TestMicroBatch;

struct Recompute {
  int spatial = 0;
  int temporal = 0;
};

TestMicroBatch Clips(int first_rank, int degree, SpMode mode,
                     std::vector<ClipShape> shapes,
                     const Recompute& recompute = {}) {
  TestMicroBatch clips;
  clips.first_rank = first_rank;
  clips.degree = degree;
  clips.sp_mode = mode;
  clips.ulysses_degree = mode == SpMode::kSwitch ? 1 : 0;
  clips.shapes = std::move(shapes);
  clips.recompute_layers = recompute.spatial;
  clips.recompute_temporal_layers = recompute.temporal;
  return clips;
}

ParityOptions OneStep(int world, std::vector<TestMicroBatch> micro_batches) {
  ParityOptions options;
  options.video = SmallVideoConfig();
  options.world = world;
  options.steps = {std::move(micro_batches)};
  return options;
}

TEST(ClipParityTest, OneRankPacksClipsOfAnyShape) {
  ExpectParity(OneStep(
      1, {Clips(0, 1, SpMode::kUlysses, {{3, 2, 2}, {1, 1, 1}, {2, 3, 1}}),
          Clips(0, 1, SpMode::kUlysses, {{4, 1, 3}})}));
}

TEST(ClipParityTest, TwoRanksSwitchBetweenFramesAndPatches) {
  ExpectParity(OneStep(
      2, {Clips(0, 2, SpMode::kSwitch, {{3, 2, 2}, {2, 1, 2}, {5, 3, 1}})}));
}

// Neither frames nor patches divide by the ranks.
TEST(ClipParityTest, DegreesNeedNotDivideFramesOrPatches) {
  for (const int degree : {2, 3, 4, 5}) {
    SCOPED_TRACE(degree);
    ExpectParity(
        OneStep(5, {Clips(0, degree, SpMode::kSwitch, {{7, 3, 2}, {5, 1, 5}}),
                    Clips(5 - degree, degree, SpMode::kSwitch, {{6, 7, 1}})}));
  }
}

TEST(ClipParityTest, HeadsAreExchangedWhereAClipHasTooFewFrames) {
  for (const int degree : {2, 4}) {
    SCOPED_TRACE(degree);
    ExpectParity(
        OneStep(4, {Clips(0, degree, SpMode::kUlysses, {{1, 3, 3}, {1, 1, 1}}),
                    Clips(4 - degree, degree, SpMode::kUlysses, {{3, 2, 1}})}));
  }
}

// Capacity: the planner caps the degree or exchanges heads; nothing is padded.
TEST(ClipParityTest, ASwitchThatWouldPadIsRefused) {
  const auto report =
      RunParity(OneStep(4, {Clips(0, 4, SpMode::kSwitch, {{3, 4, 4}})}));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(report.status().message().find("3 frames of 16 patches"),
            absl::string_view::npos)
      << report.status();
}

TEST(ClipParityTest, DegreesAndModesAreMixedWithinAStep) {
  ExpectParity(OneStep(4, {Clips(0, 4, SpMode::kSwitch, {{6, 2, 3}}),
                           Clips(0, 2, SpMode::kUlysses, {{1, 3, 3}}),
                           Clips(2, 1, SpMode::kUlysses, {{2, 2, 2}}),
                           Clips(2, 2, SpMode::kSwitch, {{2, 1, 5}}),
                           Clips(0, 1, SpMode::kUlysses, {{4, 1, 1}})}));
}

TEST(ClipParityTest, EveryRecomputeCountOfEitherKindGivesTheSame) {
  for (int spatial = 0; spatial <= 2; ++spatial) {
    for (int temporal = 0; temporal <= 2; ++temporal) {
      ExpectParity(OneStep(
          2,
          {Clips(0, 2, SpMode::kSwitch, {{3, 2, 2}}, {spatial, temporal}),
           Clips(1, 1, SpMode::kUlysses, {{2, 1, 3}}, {spatial, temporal}),
           Clips(0, 2, SpMode::kUlysses, {{1, 1, 3}}, {spatial, temporal})}));
    }
  }
}

// A clip without loss contributes nothing, alone or in company.
TEST(ClipParityTest, AClipThatIsGivenWholeContributesNothing) {
  TestMicroBatch alone = Clips(0, 1, SpMode::kUlysses, {{3, 2, 2}});
  alone.given_frames = 3;
  TestMicroBatch company = Clips(0, 2, SpMode::kSwitch, {{2, 2, 2}, {5, 2, 1}});
  company.given_frames = 2;
  ParityOptions options = OneStep(2, {alone, company});
  ExpectParity(options);
  const ParityReport report = MustRun(options);
  EXPECT_EQ(report.last_plan.trained_tokens, 6);
  EXPECT_EQ(report.results[0].micro_batches[0].loss_sum, 0);
}

TEST(ClipParityTest, ParametersAgreeAfterTenStepsWithSplitStates) {
  ParityOptions options = OneStep(4, {});
  options.steps.clear();
  for (int64_t step = 0; step < 10; ++step) {
    options.steps.push_back({Clips(0, 4, SpMode::kSwitch, {{4 + step, 2, 3}}),
                             Clips(0, 2, SpMode::kSwitch, {{3, step + 1, 2}}),
                             Clips(3, 1, SpMode::kUlysses, {{1, 2, 2}})});
  }
  for (const Sharding sharding : {Sharding::kNone, Sharding::kZero1}) {
    options.sharding = sharding;
    ExpectParity(options);
  }
}

TEST(ClipParityTest, GlooGivesTheSame) {
  std::signal(SIGPIPE, SIG_IGN);
  ParityOptions options =
      OneStep(2, {Clips(0, 2, SpMode::kSwitch, {{5, 2, 3}}, {1, 1}),
                  Clips(0, 2, SpMode::kUlysses, {{1, 2, 3}})});
  options.back_end = BackEnd::kGloo;
  ExpectParity(options);
}

TEST(ClipParityTest, BFloat16StaysWithinRounding) {
  ParityOptions options =
      OneStep(2, {Clips(0, 2, SpMode::kSwitch, {{5, 2, 3}}, {1, 1}),
                  Clips(0, 2, SpMode::kUlysses, {{1, 2, 3}})});
  options.video->dtype = at::kBFloat16;
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, 1e-2);
  EXPECT_LE(report.gradient, 0.1);
}

}  // namespace
}  // namespace evenstep::trainer
