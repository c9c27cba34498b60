#include "jobspec/llama_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/testing/temp_folder.h"
#include "jobspec/rules/rules.h"

namespace evenstep::jobspec {
namespace {

using ::testing::HasSubstr;

// One of the files that the fuzz target begins with.
std::string Seed(const std::string& name) {
  const char* const source = std::getenv("EVENSTEP_SOURCE_DIR");
  const auto text = ReadWholeFile(
      absl::StrCat(source == nullptr ? "." : source,
                   "/jobspec/testdata/llama_config/", name, ".json"),
      1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// Up to the brace that closes it.
std::string Whole() {
  const std::string text = Seed("job");
  return text.substr(0, text.rfind('}') + 1);
}

TEST(LlamaConfigTest, AJobsOwnSaysItsModel) {
  const auto model = ParseLlamaConfig(Seed("job"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers, 2);
  EXPECT_EQ(model->width, 64);
  EXPECT_EQ(model->heads, 4);
  EXPECT_EQ(model->kv_heads, 2);
  EXPECT_EQ(model->vocab, 257);
  EXPECT_EQ(model->mlp_width, 192);
  EXPECT_EQ(model->norm_epsilon, 1e-5);
  EXPECT_EQ(model->rope_theta, 10000);
  EXPECT_TRUE(ValidateModelSpec(*model).ok()) << ValidateModelSpec(*model);
  EXPECT_TRUE(CheckLlamaConfig(Seed("job"), *model).ok())
      << CheckLlamaConfig(Seed("job"), *model);
}

TEST(LlamaConfigTest, WhatIsNotSaidIsLlamasDefault) {
  const auto model = ParseLlamaConfig(Seed("least"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->kv_heads, model->heads);
  EXPECT_EQ(model->norm_epsilon, kLlamaEpsilon);
  EXPECT_EQ(model->rope_theta, kRopeTheta);
  EXPECT_TRUE(CheckLlamaConfig(Seed("least"), *model).ok());
}

TEST(LlamaConfigTest, WhatIsNotSaidIsComparedAsLlamasDefault) {
  const ModelSpec least = *ParseLlamaConfig(Seed("least"));
  ModelSpec other = least;
  other.rope_theta = 500000;
  EXPECT_THAT(CheckLlamaConfig(Seed("least"), other).ToString(),
              HasSubstr("config.json: rope_theta, which is not there, is "
                        "10000, the job's model has 500000"));
  EXPECT_FALSE(CheckLlamaConfig(R"({"rope_theta": null, "rms_norm_eps": 1e-6,
                                    "rope_scaling": {"rope_type": "default"}})",
                                other)
                   .ok());
  other = least;
  other.norm_epsilon = 1e-5;
  EXPECT_THAT(CheckLlamaConfig(Seed("least"), other).ToString(),
              HasSubstr("config.json: rms_norm_eps, which is not there, is "
                        "1e-06, the job's model has 1e-05"));
}

TEST(LlamaConfigTest, RopeThetaIsSaidInAnyOfItsPlaces) {
  ModelSpec model;
  model.rope_theta = 500000;
  for (const char* const place :
       {R"("rope_theta": 5e5)", R"("rope_parameters": {"rope_theta": 5e5})",
        R"("rope_scaling": {"rope_theta": 500000})"}) {
    const std::string text =
        absl::StrCat(R"({"rms_norm_eps": 1e-5, )", R"("num_attention_heads": )",
                     model.heads, ", ", place, "}");
    EXPECT_TRUE(CheckLlamaConfig(text, model).ok())
        << CheckLlamaConfig(text, model);
  }
}

// Angles that are scaled by place are not the trainer's.
TEST(LlamaConfigTest, ScaledAnglesAreReadAndRefused) {
  const std::string text = Seed("llama3");
  const auto model = ParseLlamaConfig(text);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->rope_theta, 500000);
  EXPECT_THAT(CheckLlamaConfig(text, *model).ToString(),
              HasSubstr("config.json: rope_type is \"llama3\""));
}

TEST(LlamaConfigTest, AFileCutAnywhereIsNamedAsCorrupt) {
  const std::string text = Whole();
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string cut = text.substr(0, size);
    EXPECT_TRUE(absl::IsDataLoss(ParseLlamaConfig(cut).status())) << size;
    EXPECT_TRUE(absl::IsDataLoss(CheckLlamaConfig(cut, ModelSpec()))) << size;
  }
  EXPECT_THAT(ParseLlamaConfig("{").status().ToString(),
              HasSubstr("config.json beside it: line 1, column 2: the text "
                        "ends in the middle of a value"));
}

TEST(LlamaConfigTest, AFlippedBitIsReadOrRefusedButNeverCrashes) {
  const std::string good = Whole();
  const ModelSpec model = *ParseLlamaConfig(good);
  const auto known = [](const absl::Status& status) {
    return status.ok() || absl::IsDataLoss(status) ||
           absl::IsFailedPrecondition(status);
  };
  int num_refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      const absl::Status read = ParseLlamaConfig(bytes).status();
      const absl::Status compared = CheckLlamaConfig(bytes, model);
      EXPECT_TRUE(known(read)) << i << read;
      EXPECT_TRUE(known(compared)) << i << compared;
      num_refused += read.ok() && compared.ok() ? 0 : 1;
    }
  }
  EXPECT_GT(num_refused, static_cast<int>(good.size()));
}

// The message would quote it, one call within the other.
TEST(LlamaConfigTest, NestingThatWouldTakeTheStackIsRefused) {
  constexpr int kLevels = 400'000;
  const auto nested = [](const char* key, int levels) {
    return absl::StrCat("{\"", key, "\": ", std::string(levels, '['),
                        std::string(levels, ']'), "}");
  };
  for (const char* const key : {"num_hidden_layers", "model_type", "x"}) {
    const std::string text = nested(key, kLevels);
    for (const absl::Status& status : {ParseLlamaConfig(text).status(),
                                       CheckLlamaConfig(text, ModelSpec())}) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("nested more than 64 deep"));
    }
  }
  EXPECT_THAT(
      ParseLlamaConfig(nested("num_hidden_layers", 3)).status().ToString(),
      HasSubstr("num_hidden_layers is not a count: [[[]]]"));
}

TEST(LlamaConfigTest, NumbersThatNoDoubleHoldsAreCorrupt) {
  EXPECT_TRUE(
      absl::IsDataLoss(ParseLlamaConfig(R"({"rope_theta": 1e999})").status()));
}

TEST(LlamaConfigTest, NoFileAndOneThatIsTooLargeAreNamed) {
  const TempFolder folder;
  const std::string weights = folder.path() + "/model.safetensors";
  EXPECT_TRUE(absl::IsNotFound(ReadConfigBeside(weights).status()));
  const std::string path = folder.path() + "/config.json";
  ASSERT_TRUE(WriteFileAtomically(path, "{}").ok());
  std::filesystem::resize_file(path, (1 << 20) + 1);
  const absl::Status status = ReadConfigBeside(weights).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

}  // namespace
}  // namespace evenstep::jobspec
