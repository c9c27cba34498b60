#include "worker/trainer/job/weights.h"

#include <ATen/ATen.h>

#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/strip.h"
#include "base/testing/temp_folder.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "jobspec/weights_fit.h"
#include "jobspec/weights_model.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"

namespace evenstep::trainer {
namespace {

using jobspec::CheckModelOfWeights;
using ::testing::HasSubstr;

DecoderConfig Config(uint64_t seed) {
  DecoderConfig config;
  config.layers = 1;
  config.width = 8;
  config.heads = 2;
  config.kv_heads = 1;
  config.vocab = 5;
  config.seed = seed;
  return config;
}

jobspec::ModelSpec Spec() {
  jobspec::ModelSpec spec;
  spec.layers = 1;
  spec.width = 8;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.vocab = 5;
  return spec;
}

class LoadWeightsTest : public ::testing::Test {
 protected:
  // The tensors of another model, after `change`.
  void Write(const std::function<void(std::vector<data::TensorBytes>*)>& change,
             const data::SafetensorsMetadata& metadata = {}) {
    values_.clear();
    std::vector<data::TensorBytes> tensors;
    for (const NamedParameter& p : theirs_->parameters()) {
      tensors.push_back(Bytes(p.name, p.value.detach(), "F32"));
    }
    if (change) change(&tensors);
    ASSERT_TRUE(data::WriteSafetensors(path_, tensors, metadata).ok());
  }
  data::TensorBytes Bytes(const std::string& name, const at::Tensor& value,
                          const std::string& dtype) {
    values_.push_back(value.contiguous());
    return {name,
            dtype,
            value.sizes().vec(),
            {static_cast<const char*>(values_.back().data_ptr()),
             values_.back().nbytes()}};
  }
  absl::Status Load() { return LoadWeights(path_, ours_->parameters()); }
  const at::Tensor& Value(const Model& model, const std::string& name) {
    for (const NamedParameter& p : model.parameters()) {
      if (p.name == name) return p.value;
    }
    ADD_FAILURE() << name;
    return model.parameters().front().value;
  }
  void ExpectAllEqual() {
    for (size_t i = 0; i < ours_->parameters().size(); ++i) {
      EXPECT_TRUE(at::equal(ours_->parameters()[i].value,
                            theirs_->parameters()[i].value))
          << ours_->parameters()[i].name;
    }
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/model.safetensors";
  const std::unique_ptr<TextModel> theirs_ = *MakeDecoder(Config(1));
  const std::unique_ptr<TextModel> ours_ = *MakeDecoder(Config(2));
  std::vector<at::Tensor> values_;
};

TEST_F(LoadWeightsTest, AFileAndItsFolderGiveTheSameValues) {
  Write(nullptr);
  const uint64_t before = WeightsKey(ours_->parameters());
  ASSERT_TRUE(Load().ok()) << Load();
  ExpectAllEqual();
  EXPECT_NE(WeightsKey(ours_->parameters()), before);
  EXPECT_EQ(WeightsKey(ours_->parameters()), WeightsKey(theirs_->parameters()));
  const auto again = *MakeDecoder(Config(3));
  ASSERT_TRUE(LoadWeights(folder_.path(), again->parameters()).ok());
  EXPECT_EQ(WeightsKey(again->parameters()), WeightsKey(theirs_->parameters()));
}

TEST_F(LoadWeightsTest, NamesMayLackThePrefixAndOldTablesAreIgnored) {
  Write([&](std::vector<data::TensorBytes>* tensors) {
    for (data::TensorBytes& tensor : *tensors) {
      tensor.name = std::string(absl::StripPrefix(tensor.name, "model."));
    }
    tensors->push_back(
        Bytes("layers.0.self_attn.rotary_emb.inv_freq", at::ones({2}), "F32"));
  });
  ASSERT_TRUE(Load().ok()) << Load();
  ExpectAllEqual();
}

TEST_F(LoadWeightsTest, ATiedHeadIsTheEmbedding) {
  Write([](std::vector<data::TensorBytes>* tensors) { tensors->pop_back(); });
  ASSERT_TRUE(Load().ok()) << Load();
  EXPECT_TRUE(at::equal(Value(*ours_, "lm_head.weight"),
                        Value(*theirs_, "model.embed_tokens.weight")));
  EXPECT_FALSE(Value(*ours_, "lm_head.weight")
                   .is_alias_of(Value(*ours_, "model.embed_tokens.weight")));
}

TEST_F(LoadWeightsTest, OtherTypesAreConverted) {
  const std::pair<const char*, at::ScalarType> types[] = {
      {"BF16", at::kBFloat16}, {"F16", at::kHalf}, {"F64", at::kDouble}};
  for (const auto& [name, type] : types) {
    Write(
        [&, name = name, type = type](std::vector<data::TensorBytes>* tensors) {
          for (size_t i = 0; i < tensors->size(); ++i) {
            (*tensors)[i] =
                Bytes((*tensors)[i].name,
                      theirs_->parameters()[i].value.detach().to(type), name);
          }
        });
    ASSERT_TRUE(Load().ok()) << name << Load();
    const at::Tensor& theirs = Value(*theirs_, "lm_head.weight");
    EXPECT_TRUE(at::equal(Value(*ours_, "lm_head.weight"),
                          theirs.to(type).to(at::kFloat)))
        << name;
  }
}

TEST_F(LoadWeightsTest, WhatDoesNotFitIsNamedWithBothShapesAndChangesNothing) {
  using Tensors = std::vector<data::TensorBytes>;
  const std::pair<std::function<void(Tensors*)>, const char*> cases[] = {
      {[](Tensors* t) { t->erase(t->begin() + 3); },
       "tensor 'model.layers.0.self_attn.k_proj.weight' is missing; the "
       "model's is [4, 8]"},
      {[](Tensors* t) {
         (*t)[3].shape = {8, 4};
       },
       "tensor 'model.layers.0.self_attn.k_proj.weight' has shape [8, 4], the "
       "model's has [4, 8]"},
      {[](Tensors* t) { (*t)[0].dtype = "I32"; },
       "tensor 'model.embed_tokens.weight' is of type I32"},
      {[this](Tensors* t) {
         t->push_back(Bytes("model.layers.1.mlp.up_proj.weight",
                            at::ones({2, 3}), "F32"));
       },
       "tensor 'model.layers.1.mlp.up_proj.weight' [2, 3] is not of the "
       "model"}};
  const uint64_t before = WeightsKey(ours_->parameters());
  for (const auto& [change, message] : cases) {
    Write(change);
    const absl::Status status = Load();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_EQ(WeightsKey(ours_->parameters()), before);
  }
}

TEST_F(LoadWeightsTest, AValueThatIsNotFiniteIsNamedWithItsPlace) {
  const auto with = [this](double value, const char* dtype,
                           at::ScalarType type) {
    Write([&, this](std::vector<data::TensorBytes>* tensors) {
      at::Tensor up = at::zeros((*tensors)[8].shape, type);
      up[3][5] = value;
      up[4][0] = value;
      (*tensors)[8] = Bytes((*tensors)[8].name, up, dtype);
    });
    return std::string(Load().message());
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(with(nan, "F32", at::kFloat),
              HasSubstr("tensor 'model.layers.0.mlp.up_proj.weight', element "
                        "[3, 5], is nan, which is not a finite number, and 1 "
                        "more of the tensor"));
  EXPECT_THAT(
      with(-std::numeric_limits<double>::infinity(), "BF16", at::kBFloat16),
      HasSubstr("element [3, 5], is -inf"));
  EXPECT_THAT(with(1e300, "F64", at::kDouble),
              HasSubstr("is 1e+300, which does not fit the job's precision, "
                        "Float"));
  EXPECT_EQ(with(1e30, "F64", at::kDouble), "");
}

// Jobs are refused by this list before any model is made.
TEST_F(LoadWeightsTest, TheTensorsOfAModelAreThoseThatTheTrainerMakes) {
  const auto expect_same = [](const jobspec::ModelSpec& spec,
                              const Model& model) {
    const std::vector<jobspec::TensorShape> tensors = jobspec::TensorsOf(spec);
    ASSERT_EQ(tensors.size(), model.parameters().size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i].name, model.parameters()[i].name);
      EXPECT_EQ(tensors[i].shape, model.parameters()[i].value.sizes().vec())
          << tensors[i].name;
    }
  };
  jobspec::ModelSpec text = Spec();
  text.layers = 2;
  expect_same(text, **MakeDecoder(ToDecoderConfig(text)));
  text.mlp_width = 24;
  expect_same(text, **MakeDecoder(ToDecoderConfig(text)));
  jobspec::ModelSpec video;
  video.kind = jobspec::ModelKind::kVideo;
  video.width = 24;
  video.heads = 3;
  video.kv_heads = 3;
  video.channels = 4;
  video.patch = 2;
  expect_same(video,
              **MakeDiffusionTransformer(ToDiffusionTransformerConfig(video)));
}

TEST_F(LoadWeightsTest, AHeadThatIsSaidToBeApartMustBeInTheFile) {
  const auto check = [this](const char* config) {
    std::ofstream(folder_.path() + "/config.json") << config;
    return CheckModelOfWeights(folder_.path(), Spec());
  };
  const char* const apart =
      R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})";
  Write(nullptr);
  EXPECT_TRUE(check(apart).ok()) << check(apart);
  Write([](std::vector<data::TensorBytes>* tensors) { tensors->pop_back(); });
  EXPECT_THAT(check(apart).ToString(),
              HasSubstr("tie_word_embeddings: false, and the file has no "
                        "lm_head.weight"));
  EXPECT_TRUE(
      check(R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": true})").ok());
}

TEST_F(LoadWeightsTest, MissingTruncatedAndShardedFilesAreNamed) {
  EXPECT_TRUE(absl::IsNotFound(Load())) << Load();
  std::ofstream(path_) << "x";
  EXPECT_TRUE(absl::IsDataLoss(Load())) << Load();
  TempFolder sharded;
  std::ofstream(sharded.path() + "/model.safetensors.index.json") << "{}";
  EXPECT_THAT(LoadWeights(sharded.path(), ours_->parameters()).ToString(),
              HasSubstr("several files"));
}

TEST_F(LoadWeightsTest, WhatShapesDoNotShowIsReadFromTheMetadata) {
  Write(nullptr, {{"evenstep.model.heads", "2"},
                  {"evenstep.model.kv_heads", "1"},
                  {"evenstep.model.rope_theta", "10000"},
                  {"evenstep.model.norm_epsilon", "1e-05"}});
  EXPECT_TRUE(CheckModelOfWeights(path_, Spec()).ok())
      << CheckModelOfWeights(path_, Spec());
  jobspec::ModelSpec other = Spec();
  other.heads = 4;
  EXPECT_THAT(CheckModelOfWeights(path_, other).ToString(),
              HasSubstr("evenstep.model.heads is 2, the job's model has 4"));
  other = Spec();
  other.rope_theta = 500000;
  EXPECT_THAT(CheckModelOfWeights(path_, other).ToString(),
              HasSubstr("rope_theta is 10000"));
}

TEST_F(LoadWeightsTest, NameKindAndAttentionOfAJobsModelAreCompared) {
  using Metadata = data::SafetensorsMetadata;
  const auto with = [](const Metadata& more, const std::string& name,
                       jobspec::Attention attention) {
    jobspec::ModelSpec spec = Spec();
    spec.name = name;
    spec.attention = attention;
    Metadata metadata = {{"evenstep.model.layers", "1"}};
    metadata.insert(more.begin(), more.end());
    return std::pair(metadata, spec);
  };
  constexpr auto kCausal = jobspec::Attention::kCausal;
  const Metadata gpt2 = {{"evenstep.model.name", "gpt2"}};
  const Metadata full = {{"evenstep.model.attention", "full"}};
  const Metadata video = {{"evenstep.model.kind", "video"}};
  const std::pair<std::pair<Metadata, jobspec::ModelSpec>, const char*>
      cases[] = {
          {with({}, "", kCausal), ""},
          {with(gpt2, "gpt2", kCausal), ""},
          {with(full, "", jobspec::Attention::kFull), ""},
          {with(gpt2, "", kCausal),
           "evenstep.model.name is gpt2, the job's model has none"},
          {with(gpt2, "bert", kCausal),
           "evenstep.model.name is gpt2, the job's model has bert"},
          {with({}, "gpt2", kCausal),
           "evenstep.model.name is none, the job's model has gpt2"},
          {with(full, "", kCausal),
           "evenstep.model.attention is full, the job's model has causal"},
          {with(video, "", kCausal),
           "evenstep.model.kind is video, the job's model has text"}};
  for (const auto& [made, message] : cases) {
    Write(nullptr, made.first);
    const absl::Status status = CheckModelOfWeights(path_, made.second);
    EXPECT_EQ(status.ok(), std::string(message).empty()) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST_F(LoadWeightsTest, AModelWithANameIsNotTakenForALlama) {
  jobspec::ModelSpec spec = Spec();
  spec.name = "gpt2";
  std::ofstream(folder_.path() + "/config.json")
      << R"({"model_type": "gpt2", "rope_theta": 5.0})";
  Write(nullptr);
  EXPECT_TRUE(CheckModelOfWeights(path_, spec).ok())
      << CheckModelOfWeights(path_, spec);
  data::SafetensorsMetadata metadata = {{"evenstep.model.layers", "1"},
                                        {"evenstep.model.name", "gpt2"},
                                        {"evenstep.model.heads", "2"},
                                        {"evenstep.model.kv_heads", "1"},
                                        {"evenstep.model.rope_theta", "5"},
                                        {"evenstep.model.norm_epsilon", "0.5"}};
  Write(nullptr, metadata);
  EXPECT_TRUE(CheckModelOfWeights(path_, spec).ok())
      << CheckModelOfWeights(path_, spec);
  metadata["evenstep.model.heads"] = "4";
  Write(nullptr, metadata);
  EXPECT_THAT(CheckModelOfWeights(path_, spec).ToString(),
              HasSubstr("heads is 4"));
}

TEST_F(LoadWeightsTest, ConfigurationsOfHuggingFaceAreCompared) {
  Write(nullptr);
  EXPECT_TRUE(CheckModelOfWeights(path_, Spec()).ok());
  const std::pair<const char*, const char*> cases[] = {
      {R"({"num_attention_heads": 2, "num_key_value_heads": 1,
           "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
           "model_type": "llama", "rope_scaling": null,
           "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}})",
       ""},
      {R"({"num_attention_heads": 4})", "num_attention_heads is 4"},
      {R"({"rms_norm_eps": 1e-6})", "rms_norm_eps is 1e-06"},
      {R"({"rope_parameters": {"rope_theta": 500000.0}})", "rope_theta is 5"},
      {R"({"rope_scaling": {"rope_type": "llama3"}})", "rope_type is \"llama3"},
      {R"({"model_type": "llama"})",
       "rms_norm_eps, which is not there, is 1e-06, the job's model has 1e-05"},
      {R"({"model_type": "gpt2"})",
       "model_type is \"gpt2\"; weights of \"llama\" alone can be read"},
      {R"({"attention_bias": true})", "attention_bias is true"},
      {"[]", "not a JSON object"}};
  for (const auto& [config, message] : cases) {
    std::ofstream(folder_.path() + "/config.json") << config;
    const absl::Status status = CheckModelOfWeights(folder_.path(), Spec());
    EXPECT_EQ(status.ok(), std::string(message).empty()) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace evenstep::trainer
