#include "worker/trainer/generate/sample_clip.h"

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/temp_folder.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/generate/load_model.h"
#include "worker/trainer/model/sample_random.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

// Predicts noise - x for a data set of one clip, all of 0.25: from (1 - t) x +
// t noise = z it is (z - x) / t.
class OneClipModel : public DiffusionTransformer {
 public:
  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }
  std::vector<LayerKind> layers() const override { return {}; }
  at::Tensor Forward(const PackedShard& /*shard*/,
                     SequenceAttention& /*attention*/,
                     const ForwardOptions& /*options*/) override {
    return {};
  }
  at::Tensor Predict(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& /*options*/) override {
    const at::Tensor z_TC =
        attention.clips()->Arrange(shard.clips->input_TC, ClipAxis::kTime);
    return (z_TC - 0.25) / shard.clips->timesteps.front();
  }

 private:
  std::vector<NamedParameter> parameters_;
};

TEST(SampleClipTest, AModelThatKnowsTheClipLeadsBackToIt) {
  OneClipModel model;
  SampleClipOptions options;
  options.shape = {3, 2, 2};
  options.patch_values = 2;
  options.steps = 7;
  const auto clip = SampleClip(options, &model);
  ASSERT_TRUE(clip.ok()) << clip.status();
  EXPECT_EQ(clip->values.size(), 24u);
  for (const float value : clip->values) EXPECT_NEAR(value, 0.25, 1e-5);
}

TEST(SampleClipTest, NoStepsAreRefused) {
  OneClipModel model;
  SampleClipOptions options;
  options.shape = {1, 1, 1};
  options.steps = 0;
  EXPECT_FALSE(SampleClip(options, &model).ok());
}

class LoadVideoModelTest : public ::testing::Test {
 protected:
  LoadVideoModelTest() {
    config_.layers = 2;
    config_.width = 16;
    config_.heads = 2;
    config_.channels = 12;
    config_.seed = 5;
    model_ = *MakeDiffusionTransformer(config_);
    metadata_ = {
        {"evenstep.model.layers", "2"}, {"evenstep.model.width", "16"},
        {"evenstep.model.heads", "2"},  {"evenstep.model.channels", "3"},
        {"evenstep.model.patch", "2"},  {"evenstep.seed", "5"}};
  }

  // With every value shifted by one.
  void Write() {
    std::vector<at::Tensor> values;
    std::vector<data::TensorBytes> tensors;
    for (const NamedParameter& p : model_->parameters()) {
      values.push_back((p.value.detach() + 1).contiguous());
      tensors.push_back({p.name,
                         "F32",
                         p.value.sizes().vec(),
                         {static_cast<const char*>(values.back().data_ptr()),
                          values.back().nbytes()}});
    }
    ASSERT_TRUE(data::WriteSafetensors(path_, tensors, metadata_).ok());
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/model.safetensors";
  DiffusionTransformerConfig config_;
  std::unique_ptr<DiffusionTransformer> model_;
  data::SafetensorsMetadata metadata_;
};

TEST_F(LoadVideoModelTest, TrainedAndInitialValuesComeFromOneFile) {
  Write();
  const auto trained = LoadVideoModel(path_, LoadedValues::kTrained);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(trained->channels, 3);
  EXPECT_EQ(trained->patch, 2);
  const auto initial = LoadVideoModel(path_, LoadedValues::kInitial);
  ASSERT_TRUE(initial.ok()) << initial.status();
  for (size_t i = 0; i < model_->parameters().size(); ++i) {
    const at::Tensor& own = model_->parameters()[i].value;
    EXPECT_TRUE(at::equal(trained->model->parameters()[i].value, own + 1));
    EXPECT_TRUE(at::equal(initial->model->parameters()[i].value, own));
  }
}

TEST_F(LoadVideoModelTest, WeightsOfAnotherModelAreRefused) {
  metadata_["evenstep.model.width"] = "32";
  Write();
  EXPECT_THAT(
      std::string(
          LoadVideoModel(path_, LoadedValues::kTrained).status().message()),
      HasSubstr("the model's has [32, 12]"));
  metadata_["evenstep.model.width"] = "16";
  const std::pair<const char*, const char*> cases[] = {
      {"evenstep.model.channels", "model.channels: 2147483646"},
      {"evenstep.model.patch", "model.patch: 2147483646"},
      {"evenstep.model.layers", "model.layers: 2147483646"}};
  for (const auto& [key, message] : cases) {
    const std::string value = std::exchange(metadata_[key], "2147483646");
    Write();
    EXPECT_THAT(
        LoadVideoModel(path_, LoadedValues::kInitial).status().ToString(),
        HasSubstr(message));
    metadata_[key] = value;
  }
  metadata_["evenstep.model.layers"] = "16384";
  Write();
  EXPECT_THAT(LoadVideoModel(path_, LoadedValues::kInitial).status().ToString(),
              HasSubstr("'blocks.2.scale_shift_table' is missing"));
  metadata_.erase("evenstep.model.channels");
  Write();
  EXPECT_THAT(
      std::string(
          LoadVideoModel(path_, LoadedValues::kTrained).status().message()),
      HasSubstr("of no video model"));
}

}  // namespace
}  // namespace evenstep::trainer
