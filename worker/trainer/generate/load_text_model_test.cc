#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/testing/temp_folder.h"
#include "data/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "jobspec/weights_model.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/generate/generate_mode.h"
#include "worker/trainer/generate/generate_text.h"
#include "worker/trainer/generate/load_model.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/job/weights.h"
#include "worker/trainer/model/decoder.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

class LoadTextModelTest : public ::testing::Test {
 protected:
  LoadTextModelTest() {
    setup_.job_id = "job";
    setup_.spec.model.layers = 1;
    setup_.spec.model.width = 16;
    setup_.spec.model.heads = 2;
    setup_.spec.model.kv_heads = 1;
    setup_.spec.model.vocab = 257;
    setup_.spec.model.mlp_width = 24;
    setup_.spec.model.rope_theta = 500;
    setup_.spec.model.norm_epsilon = 0.01;
    DecoderConfig config;
    config.layers = 1;
    config.width = 16;
    config.heads = 2;
    config.kv_heads = 1;
    config.vocab = 257;
    config.mlp_width = 24;
    config.rope_theta = 500;
    config.norm_epsilon = 0.01;
    config.seed = 9;
    model_ = *MakeDecoder(config);
  }

  // As a job leaves them.
  void Write() {
    ASSERT_TRUE(
        WriteWeights(path_, setup_, model_->parameters(), /*steps_done=*/3)
            .ok());
    ASSERT_TRUE(WriteLlamaConfig(folder_.path() + "/config.json", setup_).ok());
  }
  // As others would: without our metadata.
  void StripMetadata() {
    const auto file = data::ReadSafetensors(path_);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(data::WriteSafetensors(path_, file->tensors, {}).ok());
  }
  // Goes on with `prompt` and writes to the file "text".
  TextMode ModeFor(const std::string& prompt) {
    TextMode mode;
    mode.weights = path_;
    mode.prompt_path = folder_.path() + "/prompt";
    mode.out = folder_.path() + "/text";
    std::ofstream(mode.prompt_path) << prompt;
    return mode;
  }
  void ExpectSameLogits(const LoadedTextModel& loaded) {
    const std::vector<int32_t> prompt = {72, 101, 108, 108, 111};
    EXPECT_TRUE(at::equal(*PromptLogits(prompt, model_.get()),
                          *PromptLogits(prompt, loaded.model.get())));
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/model.safetensors";
  TrainerSetup setup_;
  std::unique_ptr<TextModel> model_;
};

TEST_F(LoadTextModelTest, AJobsWeightsSayWhatTheModelIs) {
  setup_.spec.data.tokenizer = "/data/m.model";
  Write();
  const auto loaded = LoadTextModel(folder_.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tokenizer, "/data/m.model");
  ExpectSameLogits(*loaded);
  EXPECT_FALSE(*jobspec::IsVideoModel(path_));
}

TEST_F(LoadTextModelTest, WeightsOfAVideoModelAreNotTakenForText) {
  Write();
  auto file = data::ReadSafetensors(path_);
  ASSERT_TRUE(file.ok());
  file->metadata["evenstep.model.kind"] = "video";
  ASSERT_TRUE(
      data::WriteSafetensors(path_, file->tensors, file->metadata).ok());
  EXPECT_TRUE(*jobspec::IsVideoModel(path_));
  const absl::Status status = LoadTextModel(path_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("evenstep.model.kind is video: the weights are of no "
                        "text model"));
}

TEST_F(LoadTextModelTest, WithoutThemTheConfigurationBesideThemDoes) {
  Write();
  StripMetadata();
  const auto loaded = LoadTextModel(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectSameLogits(*loaded);
  std::ofstream(folder_.path() + "/config.json") << R"({"vocab_size": 257})";
  EXPECT_THAT(LoadTextModel(path_).status().ToString(),
              HasSubstr("num_hidden_layers"));
  std::filesystem::remove(folder_.path() + "/config.json");
  EXPECT_THAT(LoadTextModel(path_).status().ToString(),
              HasSubstr("says what the model is"));
}

TEST_F(LoadTextModelTest, SizesThatTheTensorsHaveNotTakeNoMemory) {
  using Json = nlohmann::json;
  const std::string path = folder_.path() + "/config.json";
  Write();
  StripMetadata();
  std::ifstream in(path);
  const Json good = Json::parse(in);
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"hidden_size", 1e300, "hidden_size is not a count: 1e+300"},
      {"hidden_size", 16.0, "hidden_size is not a count"},
      {"hidden_size", int64_t{1} << 32,
       "hidden_size is not a count: 4294967296"},
      {"hidden_size", 1 << 20, "the model's has [257, 1048576]"},
      {"vocab_size", nullptr, "vocab_size is missing"},
      {"vocab_size", 1 << 24, "the model's has [16777216, 16]"},
      {"vocab_size", -257, "vocab_size is not a count: -257"},
      {"num_hidden_layers", 16385, "model.layers: 16385 is not in 1 to 16384"},
      {"num_hidden_layers", 16384,
       "model.layers.1.input_layernorm.weight' is missing"},
      {"intermediate_size", 1 << 22, "the model's has [4194304, 16]"},
      {"num_attention_heads", 0, "model.heads: 0"},
      {"rope_parameters", Json::parse(R"({"rope_theta": "x"})"),
       "rope_theta is not a number"},
      {"rms_norm_eps", "x", "rms_norm_eps is not a number"}};
  for (const auto& [key, value, message] : cases) {
    Json config = good;
    config[key] = value;
    std::ofstream(path) << config;
    const absl::Status status = LoadTextModel(path_).status();
    EXPECT_THAT(status.ToString(), HasSubstr(message)) << key;
  }
}

TEST_F(LoadTextModelTest, NeitherDoSizesOfTheMetadata) {
  setup_.spec.model.vocab = 1 << 24;
  Write();
  EXPECT_THAT(LoadTextModel(path_).status().ToString(),
              HasSubstr("the model's has [16777216, 16]"));
  setup_.spec.model.vocab = 1 << 25;
  Write();
  EXPECT_THAT(LoadTextModel(path_).status().ToString(),
              HasSubstr("model.vocab: 33554432"));
}

TEST_F(LoadTextModelTest, TheConfigurationSaysWhichTokenEndsAText) {
  setup_.spec.data.source = "text:/data";
  const auto ids = [&] {
    Write();
    std::ifstream in(folder_.path() + "/config.json");
    const auto config = nlohmann::json::parse(in);
    EXPECT_TRUE(config.at("bos_token_id").is_null());
    return config.at("eos_token_id").dump();
  };
  EXPECT_EQ(ids(), "256");
  // Its tokens are whatever they are.
  setup_.spec.data.source = "megatron:/data";
  EXPECT_EQ(ids(), "null");
  setup_.spec.data.source = "text:/data";
  setup_.spec.data.tokenizer = "/nonexistent/m.model";
  EXPECT_EQ(ids(), "null");
}

TEST_F(LoadTextModelTest, TextModeWritesTextReportAndLogits) {
  Write();
  TextMode mode = ModeFor("int main");
  mode.logits_path = folder_.path() + "/logits";
  mode.max_tokens = 12;
  ASSERT_TRUE(GenerateTextFile(mode).ok()) << GenerateTextFile(mode);
  std::ifstream report(mode.out + ".json");
  const auto json = nlohmann::json::parse(report);
  EXPECT_EQ(json["prompt_tokens"].size(), 8u);
  EXPECT_LE(json["tokens"].size(), 12u);
  EXPECT_EQ(std::filesystem::file_size(mode.out), json["tokens"].size());
  const auto logits = data::ReadSafetensors(mode.logits_path);
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(logits->Find("logits")->shape, (std::vector<int64_t>{8, 257}));
  EXPECT_EQ(logits->Find("tokens")->shape, (std::vector<int64_t>{8}));
}

TEST_F(LoadTextModelTest, AChatIsLaidOutAsItIsTrained) {
  Write();
  TextMode mode = ModeFor("Hi");
  mode.max_tokens = 0;
  mode.chat = true;
  ASSERT_TRUE(GenerateTextFile(mode).ok()) << GenerateTextFile(mode);
  std::ifstream report(mode.out + ".json");
  const auto found = nlohmann::json::parse(report);
  std::string laid_out;
  for (const int token : found["prompt_tokens"]) {
    laid_out += static_cast<char>(token);
  }
  EXPECT_EQ(laid_out, "<|user|>\nHi\n<|assistant|>\n");
}

// The trainer's own decoder under a name.
absl::StatusOr<std::unique_ptr<Model>> MakeOwn(const ModelRequest& request) {
  DecoderConfig config;
  config.layers = request.layers;
  config.width = request.width;
  config.heads = request.heads;
  config.kv_heads = request.kv_heads;
  config.vocab = request.vocab;
  config.mlp_width = 24;
  config.rope_theta = 500;
  config.norm_epsilon = 0.01;
  config.seed = request.seed;
  config.dtype = request.dtype;
  return MakeDecoder(config);
}

// Trained as any, but not asked.
class TrainedAlone : public Model {
 public:
  explicit TrainedAlone(std::unique_ptr<Model> inner)
      : inner_(std::move(inner)) {}
  const std::vector<NamedParameter>& parameters() const override {
    return inner_->parameters();
  }
  std::vector<LayerKind> layers() const override { return inner_->layers(); }
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    return inner_->Forward(shard, attention, options);
  }

 private:
  const std::unique_ptr<Model> inner_;
};

absl::StatusOr<std::unique_ptr<Model>> MakeTrainedAlone(
    const ModelRequest& request) {
  return std::make_unique<TrainedAlone>(*MakeOwn(request));
}

TEST_F(LoadTextModelTest, AModelWithANameIsMadeByTheTrainerThatKnowsIt) {
  setup_.spec.model.name = "own";
  setup_.spec.data.max_length = 77;
  Write();
  const auto loaded = LoadTextModel(folder_.path(), {{"own", MakeOwn}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->longest, 77);
  ExpectSameLogits(*loaded);
  EXPECT_THAT(LoadTextModel(path_).status().ToString(),
              HasSubstr("name the trainer that has it (evenstep generate "
                        "--trainer)"));
  EXPECT_THAT(LoadTextModel(path_, {{"owl", MakeOwn}}).status().ToString(),
              HasSubstr("'own' is unknown to this trainer; did you mean "
                        "'owl'"));
}

TEST_F(LoadTextModelTest, AModelWithANameThatCannotGoOnSaysWhy) {
  setup_.spec.model.name = "own";
  Write();
  EXPECT_THAT(
      LoadTextModel(path_, {{"own", MakeTrainedAlone}}).status().ToString(),
      HasSubstr("'own' can be trained but not asked for text: it derives from "
                "Model, not from TextModel"));
  auto file = data::ReadSafetensors(path_);
  ASSERT_TRUE(file.ok());
  file->metadata.erase(kMaxLengthKey);
  ASSERT_TRUE(
      data::WriteSafetensors(path_, file->tensors, file->metadata).ok());
  EXPECT_THAT(LoadTextModel(path_, {{"own", MakeOwn}}).status().ToString(),
              HasSubstr("an older trainer wrote them"));
  setup_.spec.model.attention = jobspec::Attention::kFull;
  Write();
  EXPECT_THAT(LoadTextModel(path_, {{"own", MakeOwn}}).status().ToString(),
              HasSubstr("trained with attention: full"));
}

// Bytes would be read as ids of pieces.
TEST_F(LoadTextModelTest, AForeignModelIsNotAskedInBytesUnlessItHasThatMany) {
  Write();
  StripMetadata();
  EXPECT_TRUE(GenerateTextFile(ModeFor("Hi")).ok())
      << GenerateTextFile(ModeFor("Hi"));
  DecoderConfig config;
  config.layers = 1;
  config.width = 16;
  config.heads = 2;
  config.kv_heads = 1;
  config.vocab = 300;
  config.mlp_width = 24;
  model_ = *MakeDecoder(config);
  setup_.spec.model.vocab = 300;
  Write();
  EXPECT_TRUE(GenerateTextFile(ModeFor("Hi")).ok())
      << GenerateTextFile(ModeFor("Hi"));
  StripMetadata();
  EXPECT_THAT(GenerateTextFile(ModeFor("Hi")).ToString(),
              HasSubstr("do not say which tokenizer they were trained with, "
                        "and 300 tokens are not bytes"));
}

TEST_F(LoadTextModelTest, ATokenizerThatIsGoneCanBeNamed) {
  setup_.spec.data.tokenizer = "/nonexistent/m.model";
  Write();
  const TextMode mode = ModeFor("Hi");
  EXPECT_THAT(GenerateTextFile(mode).ToString(),
              HasSubstr("name one with --tokenizer"));
}

}  // namespace
}  // namespace evenstep::trainer
