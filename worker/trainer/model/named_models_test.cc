#include "worker/trainer/model/named_models.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace evenstep::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Says what it is told, and computes nothing.
class SaidModel : public Model {
 public:
  SaidModel(int layers, std::vector<NamedParameter> parameters)
      : layers_(layers), parameters_(std::move(parameters)) {}

  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }
  std::vector<LayerKind> layers() const override {
    return {{"block", layers_ - 1}, {"other block", 1}};
  }
  at::Tensor Forward(const PackedShard&, SequenceAttention&,
                     const ForwardOptions&) override {
    return at::zeros({});
  }

 private:
  const int layers_;
  const std::vector<NamedParameter> parameters_;
};

at::Tensor Leaf(at::ScalarType type = at::kFloat) {
  return at::zeros({2}, type).requires_grad_(true);
}

ModelRequest ThreeLayers() {
  ModelRequest request;
  request.layers = 3;
  return request;
}

std::string ErrorOf(int layers, std::vector<NamedParameter> parameters) {
  const NamedModels models = {
      {"said",
       [&](const ModelRequest&) -> absl::StatusOr<std::unique_ptr<Model>> {
         return std::make_unique<SaidModel>(layers, parameters);
       }}};
  return std::string(
      MakeNamedModel(models, "said", ThreeLayers()).status().message());
}

TEST(NamedModelsTest, AModelThatIsAsTheJobSaysIsMade) {
  EXPECT_EQ(ErrorOf(3, {{"a", Leaf()}, {"b", Leaf()}}), "");
}

TEST(NamedModelsTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const ModelMaker none = [](const ModelRequest&) {
    return absl::InternalError("made");
  };
  const NamedModels models = {{"gpt2", none}, {"mixer", none}};
  const auto made = MakeNamedModel(models, "gpt3", ThreeLayers());
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()),
              AllOf(HasSubstr("model.name: 'gpt3'"),
                    HasSubstr("did you mean 'gpt2'"), HasSubstr("mixer")));
  EXPECT_THAT(
      std::string(MakeNamedModel({}, "gpt2", ThreeLayers()).status().message()),
      HasSubstr("no custom models"));
}

TEST(NamedModelsTest, WhatPlansAndUpdatesWouldGetWrongIsRefused) {
  EXPECT_THAT(ErrorOf(4, {{"a", Leaf()}}),
              HasSubstr("4 layers, model.layers is 3"));
  EXPECT_THAT(ErrorOf(3, {}), HasSubstr("no parameters"));
  EXPECT_THAT(ErrorOf(3, {{"a", Leaf()}, {"a", Leaf()}}),
              HasSubstr("two parameters are named a"));
  EXPECT_THAT(ErrorOf(3, {{"a", at::zeros({2})}}),
              HasSubstr("a is not a leaf"));
  EXPECT_THAT(ErrorOf(3, {{"a", at::mul(Leaf(), Leaf())}}),
              HasSubstr("a is not a leaf"));
  EXPECT_THAT(ErrorOf(3, {{"a", Leaf(at::kDouble)}}),
              HasSubstr("a is Double, the job's precision Float"));
}

}  // namespace
}  // namespace evenstep::trainer
