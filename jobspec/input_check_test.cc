#include "jobspec/input_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "data/safetensors.h"
#include "jobspec/weights_fit.h"

namespace evenstep::jobspec {
namespace {

using ::testing::HasSubstr;

class InputCheckTest : public ::testing::Test {
 protected:
  InputCheckTest() {
    spec_.data.source = "text:" + folder_.path();
    spec_.model.layers = 1;
    spec_.model.width = 8;
    spec_.model.heads = 2;
    spec_.model.kv_heads = 1;
    std::ofstream(Path("doc.txt")) << "a document";
  }

  std::string Path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  // Weights of zeros that are those of `model`.
  void WriteWeights(const ModelSpec& model,
                    const data::SafetensorsMetadata& metadata = {}) {
    std::vector<data::TensorBytes> tensors;
    for (const TensorShape& tensor : TensorsOf(model)) {
      int64_t bytes = 4;
      for (const int64_t size : tensor.shape) bytes *= size;
      tensors.push_back({tensor.name,
                         "F32",
                         tensor.shape,
                         {zeros_.data(), static_cast<size_t>(bytes)}});
    }
    ASSERT_TRUE(
        data::WriteSafetensors(Path("model.safetensors"), tensors, metadata)
            .ok());
  }
  absl::Status Check(InputDepth depth = InputDepth::kAll,
                     InputPlace place = InputPlace::kMustBeHere) const {
    return CheckInputs(spec_, {depth, place});
  }

  const TempFolder folder_;
  const std::string zeros_ = std::string(1 << 16, '\0');
  JobSpec spec_;
};

TEST_F(InputCheckTest, SoundInputsPass) {
  EXPECT_TRUE(Check().ok()) << Check();
  WriteWeights(spec_.model);
  spec_.model.weights = folder_.path();
  EXPECT_TRUE(Check().ok()) << Check();
  EXPECT_TRUE(Check(InputDepth::kHeaders).ok());
}

TEST_F(InputCheckTest, EachInputIsNamedByItsKey) {
  const JobSpec good = spec_;
  WriteWeights(spec_.model);
  std::ofstream(Path("tokenizer.json")) << "{\"version\": \"1.0\"}";
  std::ofstream(Path("lfs.safetensors"))
      << "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
  const struct {
    std::function<void(JobSpec&)> change;
    std::string message;
  } cases[] = {
      {[&](JobSpec& s) { s.data.source = "text:" + Path("none"); },
       "data.source text:" + Path("none") + ": "},
      {[&](JobSpec& s) { s.evaluation.source = "text:" + Path("none"); },
       "evaluation.source text:" + Path("none") + ": "},
      {[&](JobSpec& s) { s.data.tokenizer = Path("none"); },
       "data.tokenizer: tokenizer " + Path("none") + ": no such file"},
      {[&](JobSpec& s) { s.data.tokenizer = Path("tokenizer.json"); },
       "it is JSON, as Hugging Face's tokenizer.json is"},
      {[&](JobSpec& s) { s.model.weights = Path("none"); },
       "model.weights: " + Path("none") + ": no such file"},
      {[&](JobSpec& s) { s.model.weights = Path("lfs.safetensors"); },
       "it is not a safetensors file but a Git LFS pointer"},
      {[&](JobSpec& s) {
         s.model.weights = folder_.path();
         s.model.layers = 2;
       },
       "tensor 'model.layers.1.input_layernorm.weight' is missing"},
      {[&](JobSpec& s) {
         s.model.weights = folder_.path();
         s.model.width = 16;
       },
       "has shape [257, 8], the model's has [257, 16]"}};
  for (const auto& [change, message] : cases) {
    spec_ = good;
    change(spec_);
    EXPECT_THAT(std::string(Check().message()), HasSubstr(message));
  }
}

TEST_F(InputCheckTest, WeightsOfAnotherTokenizerAreNotTrainedAsBytes) {
  const auto expect = [&](const std::string& message) {
    EXPECT_THAT(std::string(Check(InputDepth::kHeaders).message()),
                HasSubstr(message));
  };
  spec_.model.vocab = 300;
  WriteWeights(spec_.model);
  spec_.model.weights = folder_.path();
  expect(
      "the job has no data.tokenizer, so text is trained as bytes, and these "
      "weights have a vocabulary of 300, not the 257 of bytes; name the "
      "model's SentencePiece model with data.tokenizer");
  spec_.data.source = "synthetic:short";
  EXPECT_TRUE(Check().ok()) << Check();
  spec_.data.source = "text:" + folder_.path();
  spec_.model.vocab = 257;
  WriteWeights(spec_.model);
  EXPECT_TRUE(Check().ok()) << Check();
  std::ofstream(Path("tokenizer.json")) << "{}";
  expect("a tokenizer.json beside them; only SentencePiece models");
  std::ofstream(Path("tokenizer.model")) << "pieces";
  expect("beside them; set data.tokenizer: " + Path("tokenizer.model"));
  WriteWeights(spec_.model, {{"evenstep.tokenizer", ""}});
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(InputCheckTest, WhatMayBeElsewhereIsCheckedWhereItIsHere) {
  spec_.data.source = "text:/nonexistent/data";
  spec_.data.tokenizer = "/nonexistent/m.model";
  spec_.model.weights = "/nonexistent/weights";
  EXPECT_FALSE(Check().ok());
  EXPECT_TRUE(Check(InputDepth::kHeaders, InputPlace::kMayBeElsewhere).ok());
  spec_.model.weights = Path("doc.txt");
  EXPECT_THAT(
      Check(InputDepth::kHeaders, InputPlace::kMayBeElsewhere).ToString(),
      HasSubstr("is not a safetensors file"));
}

}  // namespace
}  // namespace evenstep::jobspec
