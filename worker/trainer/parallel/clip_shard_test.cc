#include "worker/trainer/parallel/clip_shard.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/costs/sample_size.h"
#include "worker/trainer/model/sample_random.h"
#include "worker/trainer/parallel/clip_layout.h"
#include "worker/trainer/testing/parity.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using data::SampleTokens;
using ::testing::HasSubstr;
using testing::RandomClip;

constexpr int64_t kChannels = 3;
constexpr uint64_t kSeed = 11;

struct Batch {
  std::vector<SampleTokens> samples;
  std::vector<int64_t> ids;
};

Batch MakeBatch(const std::vector<ClipShape>& shapes) {
  Batch batch;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto id = static_cast<int64_t>(100 + i);
    batch.ids.push_back(id);
    batch.samples.push_back(RandomClip(id, shapes[i], kChannels));
  }
  return batch;
}

PackedShard MustMake(const Batch& batch, int degree, int rank,
                     ClipSharing sharing) {
  auto shard =
      MakeClipShard({batch.samples, batch.ids, kSeed}, degree, rank, sharing);
  EXPECT_TRUE(shard.ok()) << shard.status();
  return *std::move(shard);
}

// Everything that is random or masked, by clip, frame and patch.
using Place = std::tuple<int, int64_t, int64_t>;
struct Drawn {
  std::map<Place, std::vector<double>> input;
  std::map<Place, std::vector<double>> target;
  std::map<Place, double> weight;
  std::map<Place, double> timestep;       // by frame
  std::map<Place, double> late_timestep;  // by patch
};

std::vector<double> RowOf(const at::Tensor& x, int64_t row) {
  std::vector<double> values;
  for (int64_t c = 0; c < x.size(1); ++c) {
    values.push_back(x[row][c].item().toDouble());
  }
  return values;
}

void Collect(const PackedShard& shard, const std::vector<ClipPlace>& by_frame,
             const std::vector<ClipPlace>& by_patch, Drawn* drawn) {
  const PackedClips& clips = *shard.clips;
  ASSERT_EQ(clips.input_TC.size(0), static_cast<int64_t>(by_frame.size()));
  ASSERT_EQ(clips.target_TC.size(0), static_cast<int64_t>(by_patch.size()));
  for (size_t t = 0; t < by_frame.size(); ++t) {
    const auto [clip, frame, patch] = by_frame[t];
    if (clip < 0) continue;
    const auto row = static_cast<int64_t>(t);
    drawn->input[{clip, frame, patch}] = RowOf(clips.input_TC, row);
    drawn->timestep[{clip, frame, patch}] =
        clips.timesteps[clips.by_frame.condition_T[row].item().toLong()];
  }
  for (size_t t = 0; t < by_patch.size(); ++t) {
    const auto [clip, frame, patch] = by_patch[t];
    if (clip < 0) continue;
    const auto row = static_cast<int64_t>(t);
    drawn->target[{clip, frame, patch}] = RowOf(clips.target_TC, row);
    drawn->weight[{clip, frame, patch}] = clips.weight_T[row].item().toDouble();
    drawn->late_timestep[{clip, frame, patch}] =
        clips.timesteps[clips.by_patch.condition_T[row].item().toLong()];
  }
}

Drawn DrawOver(const Batch& batch, int degree, ClipSharing sharing) {
  Drawn drawn;
  for (int rank = 0; rank < degree; ++rank) {
    const PackedShard shard = MustMake(batch, degree, rank, sharing);
    const auto& shapes = *shard.clips->shapes;
    const bool switches = shard.ulysses_degree == 1;
    Collect(shard,
            switches ? PlacesByFrame(shapes, degree, rank)
                     : PlacesInRuns(shapes, degree, rank),
            switches ? PlacesByPatch(shapes, degree, rank)
                     : PlacesInRuns(shapes, degree, rank),
            &drawn);
  }
  return drawn;
}

// To the last bit.
TEST(ClipShardTest, NoiseTimestepsAndMasksAreTheSameAtEveryDegreeAndMode) {
  const Batch batch = MakeBatch({{5, 2, 3}, {4, 3, 2}, {7, 1, 5}});
  const Drawn alone = DrawOver(batch, 1, ClipSharing::kSwitch);
  EXPECT_EQ(alone.input.size(), 30u + 24u + 35u);
  for (const ClipSharing sharing :
       {ClipSharing::kSwitch, ClipSharing::kHeads}) {
    for (const int degree : {2, 3, 4}) {
      const Drawn shared = DrawOver(batch, degree, sharing);
      EXPECT_EQ(shared.input, alone.input);
      EXPECT_EQ(shared.target, alone.target);
      EXPECT_EQ(shared.weight, alone.weight);
      EXPECT_EQ(shared.timestep, alone.timestep);
      EXPECT_EQ(shared.late_timestep, alone.timestep);
    }
  }
}

TEST(ClipShardTest, ASampleIsNoisedTheSameInWhateverCompany) {
  const Batch both = MakeBatch({{4, 3, 2}, {5, 2, 3}});
  const Batch second{{both.samples[1]}, {both.ids[1]}};
  const Drawn in_company = DrawOver(both, 2, ClipSharing::kSwitch);
  const Drawn alone = DrawOver(second, 1, ClipSharing::kSwitch);
  for (const auto& [place, values] : alone.input) {
    const auto [clip, frame, patch] = place;
    EXPECT_EQ(in_company.input.at({1, frame, patch}), values);
  }
}

TEST(ClipShardTest, AnotherSampleOrSeedIsNoisedOtherwise) {
  const Batch batch = MakeBatch({{2, 2, 2}});
  Batch repeated = batch;
  repeated.ids[0] += 1;
  EXPECT_NE(DrawOver(batch, 1, ClipSharing::kSwitch).target,
            DrawOver(repeated, 1, ClipSharing::kSwitch).target);
  EXPECT_NE(SampleRandom(1, 5).Noise(0, 0), SampleRandom(2, 5).Noise(0, 0));
  EXPECT_NE(SampleRandom(1, 5).Timestep(), SampleRandom(1, 6).Timestep());
}

TEST(ClipShardTest, NoiseIsStandardNormalAndTimestepsLieWithin0And1) {
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const double noise = SampleRandom(3, i / 100).Noise(i % 100, i % 3);
    sum += noise;
    squares += noise * noise;
    const double timestep = SampleRandom(3, i).Timestep();
    EXPECT_GT(timestep, 0);
    EXPECT_LT(timestep, 1);
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.06);
  EXPECT_NEAR(squares / kDraws, 1, 0.08);
}

TEST(ClipShardTest, SomeFramesAreGivenButNeverAll) {
  int given = 0;
  for (int64_t id = 0; id < 400; ++id) {
    const SampleRandom random(9, id);
    EXPECT_EQ(random.GivenFrames(1, 1.0), 0);
    EXPECT_EQ(random.GivenFrames(5, 0.0), 0);
    const int64_t frames = random.GivenFrames(5, 0.5);
    EXPECT_GE(frames, 0);
    EXPECT_LT(frames, 5);
    given += frames > 0 ? 1 : 0;
  }
  EXPECT_NEAR(given, 200, 40);
}

// Frames that are given are clean and carry no loss.
TEST(ClipShardTest, GivenFramesAreTheLatentsThemselves) {
  Batch batch = MakeBatch({{3, 1, 2}});
  batch.samples[0].given_frames = 1;
  const PackedShard shard = MustMake(batch, 1, 0, ClipSharing::kSwitch);
  EXPECT_EQ(shard.trained_tokens, 4);
  for (int64_t token = 0; token < 2; ++token) {
    for (int64_t c = 0; c < kChannels; ++c) {
      EXPECT_EQ(shard.clips->input_TC[token][c].item().toDouble(),
                batch.samples[0].clip->token(token)[c]);
    }
  }
}

TEST(ClipShardTest, AClipThatIsGivenWholeHasNoTrainedToken) {
  Batch batch = MakeBatch({{3, 1, 2}});
  batch.samples[0].given_frames = 3;
  const PackedShard shard = MustMake(batch, 1, 0, ClipSharing::kSwitch);
  EXPECT_EQ(shard.trained_tokens, 0);
  EXPECT_EQ(shard.clips->weight_T.sum().item().toDouble(), 0);
}

// The planner counts what the fullest rank holds.
TEST(ClipShardTest, PaddedTokensAreThoseOfThePlanner) {
  planner::ModelShape model;
  model.spatial_layers = model.temporal_layers = 1;
  for (const ClipShape& shape :
       std::vector<ClipShape>{{7, 3, 2}, {4, 1, 5}, {8, 2, 4}}) {
    for (const int degree : {2, 3, 4}) {
      planner::Sample sample;
      sample.length = shape.tokens();
      sample.frames = shape.frames;
      sample.height = shape.height;
      sample.width = shape.width;
      const planner::SequenceSplit split{planner::SpMode::kSwitch, degree};
      const planner::BatchSize size = planner::SizeOf(model, split, sample);
      const std::vector<ClipShape> shapes = {shape};
      EXPECT_EQ(PaddedClipTokens(shapes, degree, /*switches=*/true),
                planner::PaddedTokens(size.tokens, degree));
      size_t fullest = 0;
      for (int rank = 0; rank < degree; ++rank) {
        fullest = std::max({fullest, PlacesByFrame(shapes, degree, rank).size(),
                            PlacesByPatch(shapes, degree, rank).size()});
      }
      EXPECT_EQ(static_cast<int64_t>(fullest) * degree, size.tokens);
    }
  }
}

// What a rank sends is what its peer receives.
TEST(ClipSwitchTest, PlannedSendsEqualPlannedReceives) {
  const std::vector<ClipShape> shapes = {{7, 3, 2}, {5, 1, 5}};
  constexpr int kDegree = 5;
  std::vector<ClipSwitch> ranks;
  for (int rank = 0; rank < kDegree; ++rank) {
    ranks.push_back(MakeClipSwitch(shapes, kDegree, rank));
    EXPECT_EQ(ranks[rank].send_order.size(),
              PlacesByFrame(shapes, kDegree, rank).size());
    EXPECT_EQ(ranks[rank].recv_order.size(),
              PlacesByPatch(shapes, kDegree, rank).size());
  }
  for (int a = 0; a < kDegree; ++a) {
    for (int b = 0; b < kDegree; ++b) {
      EXPECT_EQ(ranks[a].send_tokens[b], ranks[b].recv_tokens[a]);
    }
  }
}

TEST(ClipShardTest, BadClipsAreRefusedWithTheirNumbers) {
  Batch batch = MakeBatch({{2, 2, 2}, {2, 1, 1}});
  const auto refusal = [&](int degree) {
    return std::string(MakeClipShard({batch.samples, batch.ids, kSeed}, degree,
                                     0, ClipSharing::kSwitch)
                           .status()
                           .message());
  };
  EXPECT_THAT(refusal(2), HasSubstr("2 frames of 1 patches: too few for 2"));
  EXPECT_EQ(refusal(1), "");
  batch.samples[1] = SampleTokens{{1}, {2}};
  EXPECT_THAT(refusal(1), HasSubstr("sample 101 is not a clip"));
  batch.samples[1] = RandomClip(101, {2, 1, 1}, kChannels + 1);
  EXPECT_THAT(refusal(1), HasSubstr("patches of 4 values"));
}

}  // namespace
}  // namespace evenstep::trainer
