#include "data/latents/latents_dataset.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "data/latents/moving_latents.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Value>
std::string BytesOf(const std::vector<Value>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(Value));
}

class LatentsDatasetTest : public ::testing::Test {
 protected:
  LatentsDatasetTest() {
    options_.source = "latents:" + folder_.path();
    options_.max_length = 1000;
    options_.patch = 2;
    options_.channels = 1;
    options_.cache_dir = cache_.path();
  }

  // Values count up from 0.
  void Write(const std::string& file, const std::string& tensor,
             const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t side : shape) count *= side;
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    WriteBytes(file, {tensor, "F32", shape, ""}, BytesOf(values));
  }
  void WriteBytes(const std::string& file, TensorBytes tensor,
                  const std::string& bytes) {
    tensor.bytes = bytes;
    ASSERT_TRUE(
        WriteSafetensors(folder_.path() + "/" + file, {tensor}, {}).ok());
  }
  std::string Refusal() const {
    return std::string(OpenDataset(options_).status().message());
  }

  TempFolder folder_;
  TempFolder cache_;
  DatasetOptions options_;
};

TEST_F(LatentsDatasetTest, ClipsAreCutIntoPatchesRowByRow) {
  Write("a.safetensors", "clip", {2, 4, 4, 1});
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 1);
  EXPECT_EQ((*data)->Length(0), 8);
  EXPECT_EQ((*data)->Shape(0), (ClipShape{2, 2, 2}));
  const auto sample = (*data)->Read(0);
  ASSERT_TRUE(sample.ok()) << sample.status();
  const Clip& clip = *sample->clip;
  EXPECT_EQ(clip.channels, 4);
  const auto token = [&](int64_t t) {
    return std::vector<float>(clip.token(t), clip.token(t) + 4);
  };
  EXPECT_THAT(token(0), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(token(1), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(token(2), ElementsAre(8, 9, 12, 13));
  EXPECT_THAT(token(4), ElementsAre(16, 17, 20, 21));  // the second frame
}

TEST_F(LatentsDatasetTest, HalfPrecisionIsRead) {
  // 1.5, -2, the least subnormal, 0; and the same upper halves of float32.
  WriteBytes("a.safetensors", {"half", "F16", {1, 2, 2, 1}, ""},
             BytesOf<uint16_t>({0x3e00, 0xc000, 0x0001, 0}));
  WriteBytes("b.safetensors", {"brain", "BF16", {1, 2, 2, 1}, ""},
             BytesOf<uint16_t>({0x3fc0, 0xc000, 0x3f80, 0}));
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->Read(0)->clip->values,
              ElementsAre(1.5f, -2.0f, 0x1.0p-24f, 0.0f));
  EXPECT_THAT((*data)->Read(1)->clip->values,
              ElementsAre(1.5f, -2.0f, 1.0f, 0.0f));
}

TEST_F(LatentsDatasetTest, BadClipsAreNamedWithTheReason) {
  Write("good.safetensors", "clip", {1, 2, 2, 1});
  Write("odd.safetensors", "clip", {1, 3, 2, 1});
  Write("flat.safetensors", "clip", {4, 4});
  Write("rgb.safetensors", "clip", {1, 2, 2, 3});
  Write("empty.safetensors", "clip", {0, 2, 2, 1});
  WriteBytes("whole.safetensors", {"clip", "I32", {1, 1, 1, 1}, ""},
             std::string(4, '\0'));
  std::ofstream(folder_.path() + "/cut.safetensors") << "no";
  std::ofstream(folder_.path() + "/notes.txt") << "not latents";
  const std::string refusal = Refusal();
  EXPECT_THAT(refusal, HasSubstr("6 bad samples"));
  EXPECT_THAT(refusal, HasSubstr("cut.safetensors: only 2 bytes"));
  EXPECT_THAT(refusal, HasSubstr("odd.safetensors:clip: F32 [1, 3, 2, 1]: "
                                 "height and width are no multiples of 2"));
  EXPECT_THAT(refusal, HasSubstr("rgb.safetensors:clip: F32 [1, 2, 2, 3]: the "
                                 "model has 1 channels"));
  options_.on_bad_sample = OnBadSample::kSkip;
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 1);
  EXPECT_EQ((*data)->summary().num_bad, 6);
}

TEST_F(LatentsDatasetTest, ValuesThatAreNotFiniteAreBadByNameAndElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  WriteBytes("a.safetensors", {"good", "F32", {1, 2, 2, 1}, ""},
             BytesOf<float>({1, 2, 3, 4}));
  WriteBytes("b.safetensors", {"nan", "F32", {2, 2, 2, 1}, ""},
             BytesOf<float>({1, 2, 3, 4, 5, 6, nan, nan}));
  WriteBytes("c.safetensors", {"inf", "F32", {1, 2, 2, 1}, ""},
             BytesOf<float>({1, -inf, 3, 4}));
  WriteBytes("d.safetensors", {"half", "F16", {1, 2, 2, 1}, ""},
             BytesOf<uint16_t>({0, 0, 0, 0x7c00}));
  WriteBytes("e.safetensors", {"brain", "BF16", {1, 2, 2, 1}, ""},
             BytesOf<uint16_t>({0x7fc0, 0, 0, 0}));
  const std::string refusal = Refusal();
  EXPECT_THAT(refusal, HasSubstr("4 bad samples"));
  EXPECT_THAT(refusal, HasSubstr("b.safetensors:nan: element [1, 1, 0, 0] is "
                                 "NaN"));
  EXPECT_THAT(refusal, HasSubstr("c.safetensors:inf: element [0, 0, 1, 0] is "
                                 "-infinite"));
  EXPECT_THAT(refusal, HasSubstr("d.safetensors:half: element [0, 1, 1, 0] is "
                                 "infinite"));
  EXPECT_THAT(refusal, HasSubstr("e.safetensors:brain: element [0, 0, 0, 0] "
                                 "is NaN"));
  options_.on_bad_sample = OnBadSample::kSkip;
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 1);
  EXPECT_EQ((*data)->summary().num_bad, 4);
}

TEST_F(LatentsDatasetTest, OneIndexServesEveryPatchAndLength) {
  Write("a.safetensors", "clip", {2, 4, 4, 1});
  EXPECT_EQ((*OpenDataset(options_))->Length(0), 8);
  options_.progress = [](const IndexProgress&) {
    return absl::InternalError("it is indexed again");
  };
  options_.patch = 4;
  EXPECT_EQ((*OpenDataset(options_))->Length(0), 2);
  options_.patch = 1;
  EXPECT_EQ((*OpenDataset(options_))->Length(0), 32);
  options_.patch = 3;
  EXPECT_THAT(Refusal(), HasSubstr("no multiples of 3"));
  options_.patch = 1;
  options_.channels = 3;
  EXPECT_THAT(Refusal(), HasSubstr("the model has 3 channels"));
}

TEST_F(LatentsDatasetTest, ATouchedFileIsReadOnAndChangedValuesAreNot) {
  Write("a.safetensors", "clip", {1, 2, 2, 1});
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  Write("a.safetensors", "clip", {1, 2, 2, 1});
  EXPECT_TRUE((*data)->Read(0).ok()) << (*data)->Read(0).status();
  WriteBytes("a.safetensors", {"clip", "F32", {1, 2, 2, 1}, ""},
             BytesOf<float>({0, 1, 2, 4}));
  EXPECT_EQ((*data)->Read(0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*data)->Read(0).status().ToString(),
              HasSubstr("a.safetensors:clip changed since"));
}

TEST_F(LatentsDatasetTest, LongClipsFailAreSkippedOrLoseWholeFrames) {
  Write("a.safetensors", "short", {2, 2, 2, 1});
  Write("b.safetensors", "long", {9, 2, 4, 1});
  options_.max_length = 5;
  EXPECT_THAT(Refusal(), HasSubstr("b.safetensors:long: 18 tokens"));
  options_.on_too_long = OnTooLong::kSkip;
  EXPECT_EQ((*OpenDataset(options_))->summary().num_too_long, 1);
  options_.on_too_long = OnTooLong::kTruncate;
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_truncated, 1);
  EXPECT_EQ((*data)->Shape(1), (ClipShape{2, 1, 2}));
  EXPECT_EQ((*data)->Read(1)->clip->values.size(), 16u);
}

TEST_F(LatentsDatasetTest, AFileThatWasCutSinceItWasIndexedIsRefused) {
  Write("a.safetensors", "clip", {1, 2, 2, 1});
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  std::filesystem::resize_file(folder_.path() + "/a.safetensors", 50);
  EXPECT_EQ((*data)->Read(0).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(LatentsDatasetTest, TheContentKeyFollowsShapesAndSettings) {
  Write("a.safetensors", "clip", {1, 4, 4, 1});
  const uint64_t before = (*OpenDataset(options_))->summary().content_key;
  EXPECT_EQ((*OpenDataset(options_))->summary().content_key, before);
  options_.patch = 4;
  EXPECT_NE((*OpenDataset(options_))->summary().content_key, before);
  options_.patch = 2;
  Write("a.safetensors", "clip", {4, 2, 2, 1});
  EXPECT_NE((*OpenDataset(options_))->summary().content_key, before);
}

TEST_F(LatentsDatasetTest, TheContentKeySeesOtherValues) {
  WriteBytes("a.safetensors", {"clip", "F32", {1, 2, 2, 1}, ""},
             BytesOf<float>({1, 2, 3, 4}));
  const uint64_t before = (*OpenDataset(options_))->summary().content_key;
  WriteBytes("a.safetensors", {"clip", "F32", {1, 2, 2, 1}, ""},
             BytesOf<float>({1, 2, 4, 3}));
  EXPECT_NE((*OpenDataset(options_))->summary().content_key, before);
}

TEST_F(LatentsDatasetTest, MovingLatentsAreMixedAndRepeatable) {
  MovingLatentsOptions made;
  made.clips = 70;
  const auto files = WriteMovingLatents(folder_.path(), made);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*files, 2);
  options_.channels = kMovingLatentsChannels;
  const auto data = OpenDataset(options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->summary().num_samples, 70);
  std::set<int64_t> frames;
  std::set<int64_t> patches;
  for (int64_t i = 0; i < 70; ++i) {
    frames.insert((*data)->Shape(i).frames);
    patches.insert((*data)->Shape(i).patches());
  }
  EXPECT_THAT(frames, ElementsAre(1, 4, 8, 16));
  EXPECT_THAT(patches, ElementsAre(16, 32, 64));
  const uint64_t key = (*data)->summary().content_key;
  const std::vector<float> first = (*data)->Read(3)->clip->values;
  ASSERT_TRUE(WriteMovingLatents(folder_.path(), made).ok());
  EXPECT_EQ((*OpenDataset(options_))->summary().content_key, key);
  EXPECT_EQ((*OpenDataset(options_))->Read(3)->clip->values, first);
}

TEST_F(LatentsDatasetTest, MovingLatentsOutOfRangeAreNamed) {
  const auto error = [&](const MovingLatentsOptions& made) {
    return std::string(
        WriteMovingLatents(folder_.path(), made).status().message());
  };
  EXPECT_THAT(error({.clips = 99'999'999'999}),
              HasSubstr("clips: 99999999999 is not in 1 to 100000"));
  EXPECT_THAT(error({.max_frames = 0}), HasSubstr("max-frames: 0"));
  EXPECT_THAT(error({.max_side = 6}), HasSubstr("6 is not a multiple of 4"));
}

TEST_F(LatentsDatasetTest, MovingLatentsAreNotMixedWithALargerSet) {
  ASSERT_TRUE(WriteMovingLatents(folder_.path(), {.clips = 70}).ok());
  const absl::Status refused =
      WriteMovingLatents(folder_.path(), {.clips = 64}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("clips-001"));
  EXPECT_TRUE(WriteMovingLatents(folder_.path(), {.clips = 80}).ok());
}

TEST_F(LatentsDatasetTest, MovingLatentsStopBetweenFiles) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      WriteMovingLatents(folder_.path(), {.clips = 70}, stop.get_token())
          .status()));
}

}  // namespace
}  // namespace evenstep::data
