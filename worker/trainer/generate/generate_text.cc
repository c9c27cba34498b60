#include "worker/trainer/generate/generate_text.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/model/attention_block.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/parallel/sequence_parallel.h"

namespace evenstep::trainer {
namespace {

absl::Status CheckPrompt(const std::vector<int32_t>& prompt, int64_t vocab) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        "the prompt is empty; a prompt is required");
  }
  for (const int32_t token : prompt) {
    if (token >= 0 && token < vocab) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token,
                     " of the prompt is not in the model's "
                     "vocabulary of ",
                     vocab));
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const TextRequest& request) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (request.longest == 0 || length <= request.longest) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the prompt has ", length, " tokens; the model was made for ",
      request.longest, " at most (data.max_length of its job)"));
}

// Tokens of one document, from a position on, on one rank.
PackedShard ShardOf(absl::Span<const int32_t> tokens, int64_t first_position) {
  const auto count = static_cast<int64_t>(tokens.size());
  PackedShard shard;
  shard.document_lengths = {count};
  shard.real_tokens = shard.padded_tokens = count;
  shard.tokens_T = at::empty({count}, at::kLong);
  shard.positions_T = at::empty({count}, at::kLong);
  shard.targets_T = at::full({count}, data::kIgnoredTarget, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    shard.tokens_T.mutable_data_ptr<int64_t>()[i] = tokens[i];
    shard.positions_T.mutable_data_ptr<int64_t>()[i] = first_position + i;
  }
  return shard;
}

// [T, V].
at::Tensor Logits(const PackedShard& shard, SequenceAttention& attention,
                  TextModel* model) {
  at::Tensor logits_TV = model->Logits(shard, attention, {});
  const std::vector<int64_t> shape = {shard.real_tokens, model->Vocab()};
  TORCH_CHECK(logits_TV.sizes() == at::IntArrayRef(shape),
              "the model's scores are ", logits_TV.sizes(), ", not ",
              at::IntArrayRef(shape));
  const at::ScalarType type = logits_TV.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kDouble,
              "the model's scores are of type ", type, ", not Float or Double");
  return logits_TV;
}

// Of tokens that come after those that are kept.
at::Tensor FurtherLogits(const PackedShard& shard, CachedAttention& kept,
                         TextModel* model) {
  at::Tensor logits_TV = Logits(shard, kept, model);
  kept.EndPass();
  return logits_TV;
}

int NumLayers(const TextModel& model) {
  int num_layers = 0;
  for (const LayerKind& kind : model.layers()) num_layers += kind.count;
  return num_layers;
}

// Of a whole text, as in training.
at::Tensor WholeLogits(const PackedShard& shard, TextModel* model) {
  const std::unique_ptr<Communicator> alone = MakeSelfCommunicator();
  SequenceParallelAttention attention(alone.get(), &shard,
                                      IrregularHeads::kRefuse);
  return Logits(shard, attention, model);
}

// Tokens beside the prompt.
int64_t MostTokens(const TextRequest& request) {
  if (request.longest == 0) return request.max_tokens;
  return std::min(
      request.max_tokens,
      request.longest - static_cast<int64_t>(request.prompt.size()));
}

class TextGenerator {
 public:
  TextGenerator(const TextRequest& request, TextModel* model)
      : request_(request),
        model_(model),
        most_tokens_(MostTokens(request)),
        num_tokens_(std::min<int64_t>(request.num_tokens, model->Vocab())) {
    if (model->next_token() == NextToken::kWholeText) return;
    kept_.emplace(NumLayers(*model),
                  static_cast<int64_t>(request.prompt.size()) + most_tokens_);
  }

  absl::StatusOr<GeneratedText> Run() {
    GeneratedText text;
    at::Tensor scores_V = ScoresAfter(request_.prompt);
    for (int64_t i = 0; i < most_tokens_; ++i) {
      EVENSTEP_ASSIGN_OR_RETURN(const int32_t token,
                                ChooseToken({scores_V.const_data_ptr<float>(),
                                             static_cast<size_t>(num_tokens_)},
                                            request_.choice, i));
      text.ended = token == request_.end_token;
      if (text.ended) break;
      text.tokens.push_back(token);
      if (i + 1 < most_tokens_) scores_V = ScoresAfter({token});
    }
    return text;
  }

 private:
  // After the last of these tokens, which come next in the text.
  at::Tensor ScoresAfter(const std::vector<int32_t>& tokens) {
    const size_t before = text_.size();
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    const at::Tensor logits_TV =
        kept_ ? FurtherLogits(ShardOf(tokens, static_cast<int64_t>(before)),
                              *kept_, model_)
              : WholeLogits(ShardOf(text_, 0), model_);
    return logits_TV.select(0, logits_TV.size(0) - 1)
        .to(at::kCPU, at::kFloat)
        .contiguous();
  }

  const TextRequest& request_;
  TextModel* const model_;
  const int64_t most_tokens_;
  const int64_t num_tokens_;  // that may be chosen
  std::vector<int32_t> text_;
  std::optional<CachedAttention> kept_;  // absent: passes over the whole text
};

}  // namespace

absl::StatusOr<GeneratedText> GenerateText(const TextRequest& request,
                                           TextModel* model) {
  EVENSTEP_RETURN_IF_ERROR(CheckPrompt(request.prompt, model->Vocab()));
  EVENSTEP_RETURN_IF_ERROR(CheckLength(request));
  EVENSTEP_RETURN_IF_ERROR(ValidateChoice(request.choice));
  if (request.max_tokens < 0 || request.num_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.max_tokens, " tokens of a vocabulary of ", request.num_tokens));
  }
  GeneratedText text;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("generating text", [&]() -> absl::Status {
    const at::NoGradGuard without_graph;
    EVENSTEP_ASSIGN_OR_RETURN(text, TextGenerator(request, model).Run());
    return absl::OkStatus();
  }));
  return text;
}

absl::StatusOr<at::Tensor> PromptLogits(const std::vector<int32_t>& prompt,
                                        TextModel* model) {
  EVENSTEP_RETURN_IF_ERROR(CheckPrompt(prompt, model->Vocab()));
  at::Tensor logits_TV;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("computing logits", [&] {
    const at::NoGradGuard without_graph;
    logits_TV = WholeLogits(ShardOf(prompt, 0), model).cpu().contiguous();
    return absl::OkStatus();
  }));
  return logits_TV;
}

CachedAttention::CachedAttention(int num_layers, int64_t most_tokens)
    : most_tokens_(most_tokens), layers_(num_layers) {}

at::Tensor CachedAttention::Attend(const at::Tensor& q_THD,
                                   const at::Tensor& k_TGD,
                                   const at::Tensor& v_TGD,
                                   AttentionMask mask) {
  TORCH_CHECK(mask == AttentionMask::kCausal,
              "a model whose tokens see what comes after them cannot go on");
  TORCH_CHECK(next_layer_ < layers_.size(), "the model says that it has ",
              layers_.size(), " layers, but attends more often in a pass");
  Layer& layer = layers_[next_layer_++];
  const bool first = layer.num_tokens == 0;
  TORCH_CHECK(first || q_THD.size(0) == 1, "one token at a time, not ",
              q_THD.size(0));
  Keep(k_TGD, v_TGD, &layer);
  // A token that comes last sees all.
  return AttendBlock(q_THD, layer.k_SGD.narrow(0, 0, layer.num_tokens),
                     layer.v_SGD.narrow(0, 0, layer.num_tokens),
                     first ? AttentionMask::kCausal : AttentionMask::kFull)
      .out_LHD;
}

void CachedAttention::EndPass() {
  TORCH_CHECK(next_layer_ == layers_.size(), "the model says that it has ",
              layers_.size(), " layers, but attends ", next_layer_,
              " times in a pass");
  next_layer_ = 0;
}

void CachedAttention::Keep(const at::Tensor& k_TGD, const at::Tensor& v_TGD,
                           Layer* layer) {
  const int64_t added = k_TGD.size(0);
  TORCH_CHECK(layer->num_tokens + added <= most_tokens_, "room for ",
              most_tokens_, " tokens, not ", layer->num_tokens + added);
  if (!layer->k_SGD.defined()) {
    const std::vector<int64_t> shape = {most_tokens_, k_TGD.size(1),
                                        k_TGD.size(2)};
    layer->k_SGD = at::empty(shape, k_TGD.options());
    layer->v_SGD = at::empty(shape, v_TGD.options());
  }
  layer->k_SGD.narrow(0, layer->num_tokens, added).copy_(k_TGD);
  layer->v_SGD.narrow(0, layer->num_tokens, added).copy_(v_TGD);
  layer->num_tokens += added;
}

}  // namespace evenstep::trainer
