#include "worker/trainer/generate/generate_text.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/model/decoder.h"

namespace evenstep::trainer {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Four query heads over two key and value heads.
std::unique_ptr<TextModel> SmallModel(at::ScalarType dtype = at::kDouble) {
  DecoderConfig config;
  config.layers = 3;
  config.width = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.vocab = 40;
  config.seed = 4;
  config.dtype = dtype;
  std::unique_ptr<TextModel> model = *MakeDecoder(config);
  const at::NoGradGuard without_graph;
  // Initial values predict almost nothing; larger ones do.
  for (const NamedParameter& p : model->parameters()) {
    at::Tensor value = p.value;
    if (value.dim() == 2) value.mul_(20);
  }
  return model;
}

std::vector<int32_t> Tokens(int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i * 7 % 40);
  return tokens;
}

PackedShard ShardOf(const std::vector<int32_t>& tokens, int64_t position) {
  PackedShard shard;
  shard.document_lengths = {static_cast<int64_t>(tokens.size())};
  shard.tokens_T = at::empty({static_cast<int64_t>(tokens.size())}, at::kLong);
  for (size_t i = 0; i < tokens.size(); ++i) shard.tokens_T[i] = tokens[i];
  shard.positions_T =
      at::arange(position, position + static_cast<int64_t>(tokens.size()));
  return shard;
}

TEST(CachedAttentionTest, TokenByTokenGivesTheLogitsOfTheWholeText) {
  const auto model = SmallModel();
  const std::vector<int32_t> tokens = Tokens(23);
  const auto whole = PromptLogits(tokens, model.get());
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->sizes(), (at::IntArrayRef{23, 40}));
  EXPECT_GT(whole->abs().max().item<double>(), 1);
  const at::NoGradGuard without_graph;
  for (const int prompt : {1, 2, 9}) {
    CachedAttention attention(/*num_layers=*/3, /*most_tokens=*/23);
    at::Tensor logits = model->Logits(
        ShardOf({tokens.begin(), tokens.begin() + prompt}, 0), attention, {});
    attention.EndPass();
    EXPECT_LT((logits - whole->narrow(0, 0, prompt)).abs().max().item<double>(),
              1e-12);
    for (int i = prompt; i < 23; ++i) {
      logits = model->Logits(ShardOf({tokens[i]}, i), attention, {});
      attention.EndPass();
      EXPECT_LT((logits[0] - (*whole)[i]).abs().max().item<double>(), 1e-12)
          << i;
    }
    EXPECT_ANY_THROW(model->Logits(ShardOf({0}, 23), attention, {}));
  }
}

TEST(CachedAttentionTest, APositionThatIsOffByOneIsNoticed) {
  const auto model = SmallModel();
  const std::vector<int32_t> tokens = Tokens(8);
  const auto whole = PromptLogits(tokens, model.get());
  const at::NoGradGuard without_graph;
  CachedAttention attention(3, 9);
  model->Logits(ShardOf({tokens.begin(), tokens.begin() + 7}, 0), attention,
                {});
  attention.EndPass();
  const at::Tensor logits =
      model->Logits(ShardOf({tokens[7]}, 8), attention, {});
  EXPECT_GT((logits[0] - (*whole)[7]).abs().max().item<double>(), 1e-3);
}

TextRequest Greedy(int64_t max_tokens) {
  TextRequest request;
  request.prompt = Tokens(5);
  request.max_tokens = max_tokens;
  request.end_token = 40;  // not in the vocabulary: never
  request.num_tokens = 40;
  request.choice.temperature = 0;
  return request;
}

std::vector<int32_t> TokensOf(const TextRequest& request, TextModel* model) {
  const absl::StatusOr<GeneratedText> text = GenerateText(request, model);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? text->tokens : std::vector<int32_t>();
}

// The oracle computes the whole text anew for every token.
std::vector<int32_t> SlowGreedy(const TextRequest& request, TextModel* model) {
  std::vector<int32_t> text = request.prompt;
  for (int64_t i = 0; i < request.max_tokens; ++i) {
    const at::Tensor logits = *PromptLogits(text, model);
    text.push_back(
        static_cast<int32_t>(logits[static_cast<int64_t>(text.size()) - 1]
                                 .argmax()
                                 .item<int64_t>()));
  }
  return {text.begin() + static_cast<int64_t>(request.prompt.size()),
          text.end()};
}

TEST(GenerateTextTest, GreedyTextIsTheLikeliestTokenEveryTime) {
  const auto model = SmallModel();
  const TextRequest request = Greedy(20);
  const auto text = GenerateText(request, model.get());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(text->ended);
  EXPECT_THAT(text->tokens, ElementsAreArray(SlowGreedy(request, model.get())));
  EXPECT_EQ(TokensOf(request, model.get()), text->tokens);
}

// As a model of a user's: it promises nothing of how its layers attend.
class PlainModel : public TextModel {
 public:
  explicit PlainModel(std::unique_ptr<TextModel> inner)
      : inner_(std::move(inner)) {}
  const std::vector<NamedParameter>& parameters() const override {
    return inner_->parameters();
  }
  std::vector<LayerKind> layers() const override { return inner_->layers(); }
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    return inner_->Forward(shard, attention, options);
  }
  int64_t Vocab() const override { return vocab; }
  at::Tensor Logits(const PackedShard& shard, SequenceAttention& attention,
                    const ForwardOptions& options) override {
    longest_pass = std::max(longest_pass, shard.tokens_T.size(0));
    return inner_->Logits(shard, attention, options).to(scores);
  }

  int64_t vocab = 40;
  at::ScalarType scores = at::kDouble;
  int64_t longest_pass = 0;

 private:
  const std::unique_ptr<TextModel> inner_;
};

TEST(GenerateTextTest, PassesOverTheWholeTextGiveTheSameText) {
  PlainModel plain(SmallModel());
  const auto model = SmallModel();
  TextRequest request = Greedy(20);
  EXPECT_EQ(TokensOf(request, &plain), TokensOf(request, model.get()));
  EXPECT_EQ(plain.longest_pass, 24);
  request.choice.temperature = 5;
  EXPECT_EQ(TokensOf(request, &plain), TokensOf(request, model.get()));
}

TEST(GenerateTextTest, NoTextIsLongerThanTheModelWasMadeFor) {
  const TextRequest free = Greedy(20);
  TextRequest bounded = free;
  bounded.longest = 12;
  PlainModel plain(SmallModel());
  std::vector<int32_t> tokens = TokensOf(free, &plain);
  tokens.resize(7);
  EXPECT_EQ(TokensOf(bounded, &plain), tokens);
  EXPECT_EQ(TokensOf(bounded, SmallModel().get()), tokens);
  bounded.longest = 5;
  EXPECT_TRUE(TokensOf(bounded, &plain).empty());
  bounded.longest = 4;
  EXPECT_THAT(GenerateText(bounded, &plain).status().ToString(),
              HasSubstr("the prompt has 5 tokens; the model was made for 4"));
}

TEST(GenerateTextTest, ScoresOfAnotherShapeThanTheModelSaysAreRefused) {
  PlainModel plain(SmallModel());
  plain.vocab = 50;
  EXPECT_THAT(GenerateText(Greedy(2), &plain).status().ToString(),
              HasSubstr("the model's scores are [5, 40], not [5, 50]"));
}

TEST(GenerateTextTest, ScoresOfLessThanThirtyTwoBitsAreRefused) {
  PlainModel plain(SmallModel());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    plain.scores = type;
    for (const absl::Status& status :
         {GenerateText(Greedy(2), &plain).status(),
          PromptLogits(Tokens(5), &plain).status()}) {
      EXPECT_THAT(status.ToString(),
                  HasSubstr(absl::StrCat("the model's scores are of type ",
                                         at::toString(type))));
    }
  }
  plain.scores = at::kFloat;
  EXPECT_TRUE(PromptLogits(Tokens(5), &plain).ok());
}

// Of three layers; it says that it has these of each kind.
class ModelOfTwoKinds : public PlainModel {
 public:
  ModelOfTwoKinds(int first, int second)
      : PlainModel(SmallModel()), layers_{{"one", first}, {"two", second}} {}
  std::vector<LayerKind> layers() const override { return layers_; }
  NextToken next_token() const override { return NextToken::kItselfAlone; }

 private:
  const std::vector<LayerKind> layers_;
};

// After a prompt of one token, mixing them would go unnoticed.
TEST(GenerateTextTest, LayersOfEveryKindKeepTheirOwnKeysAndValues) {
  ModelOfTwoKinds model(1, 2);
  PlainModel plain(SmallModel());
  TextRequest request = Greedy(20);
  EXPECT_EQ(TokensOf(request, &model), TokensOf(request, &plain));
  EXPECT_EQ(model.longest_pass, 5);
  request.prompt = {7};
  EXPECT_EQ(TokensOf(request, &model), TokensOf(request, &plain));
}

TEST(GenerateTextTest, AModelThatHasNotTheLayersThatItSaysIsRefused) {
  ModelOfTwoKinds fewer(1, 1);
  ModelOfTwoKinds more(2, 2);
  TextRequest request = Greedy(2);
  request.prompt = {7};
  EXPECT_THAT(GenerateText(request, &fewer).status().ToString(),
              HasSubstr("has 2 layers, but attends more often in a pass"));
  EXPECT_THAT(GenerateText(request, &more).status().ToString(),
              HasSubstr("has 4 layers, but attends 3 times in a pass"));
}

TEST(GenerateTextTest, TheEndTokenEndsTheTextAndIsLeftOut) {
  const auto model = SmallModel(at::kFloat);
  TextRequest request = Greedy(20);
  const std::vector<int32_t> all = TokensOf(request, model.get());
  request.end_token = all[6];
  size_t first = 0;
  while (all[first] != request.end_token) ++first;
  const auto text = GenerateText(request, model.get());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->ended);
  EXPECT_EQ(text->tokens,
            std::vector<int32_t>(all.begin(), all.begin() + first));
}

TEST(GenerateTextTest, SeedsDecideWhatIsDrawn) {
  const auto model = SmallModel(at::kBFloat16);
  TextRequest request = Greedy(30);
  request.choice.temperature = 5;
  const auto one = GenerateText(request, model.get());
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(TokensOf(request, model.get()), one->tokens);
  request.choice.seed = 1;
  EXPECT_NE(TokensOf(request, model.get()), one->tokens);
}

TEST(GenerateTextTest, TokensThatTheTokenizerHasNotAreNeverChosen) {
  const auto model = SmallModel();
  TextRequest request = Greedy(200);
  request.num_tokens = 3;
  request.choice.temperature = 3;
  for (const int32_t token : TokensOf(request, model.get())) {
    EXPECT_LT(token, 3);
  }
}

TEST(GenerateTextTest, BadRequestsAreErrorsWithTheNumber) {
  const auto model = SmallModel();
  TextRequest request = Greedy(1);
  request.prompt = {1, 40};
  EXPECT_THAT(GenerateText(request, model.get()).status().ToString(),
              HasSubstr("token 40 of the prompt is not in the model's "
                        "vocabulary of 40"));
  request.prompt = {};
  EXPECT_THAT(GenerateText(request, model.get()).status().ToString(),
              HasSubstr("prompt is empty"));
  EXPECT_FALSE(PromptLogits({-1}, model.get()).ok());
}

}  // namespace
}  // namespace evenstep::trainer
