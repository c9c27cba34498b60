#include "worker/trainer/generate/generate_text.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/generate/cached_attention.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/parallel/sequence_parallel.h"

namespace evenstep::trainer {
namespace {

// Rows of the embedding.
int64_t VocabOf(const Model& model) {
  return model.parameters().front().value.size(0);
}

absl::Status CheckPrompt(const std::vector<int32_t>& prompt, int64_t vocab) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        "the prompt is empty; a model goes on with one token at least");
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

// Tokens of one document, from a position on, on one rank.
PackedShard ShardOf(absl::Span<const int32_t> tokens, int64_t first_position) {
  const auto count = static_cast<int64_t>(tokens.size());
  PackedShard shard;
  shard.document_lengths = {count};
  shard.real_tokens = shard.padded_tokens = count;
  shard.tokens_T = at::empty({count}, at::kLong);
  shard.positions_T = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    shard.tokens_T.mutable_data_ptr<int64_t>()[i] = tokens[i];
    shard.positions_T.mutable_data_ptr<int64_t>()[i] = first_position + i;
  }
  return shard;
}

class TextGenerator {
 public:
  TextGenerator(const TextRequest& request, TextModel* model)
      : request_(request),
        model_(model),
        num_tokens_(std::min<int64_t>(request.num_tokens, VocabOf(*model))),
        attention_(
            model->layers().front().count,
            static_cast<int64_t>(request.prompt.size()) + request.max_tokens) {}

  absl::StatusOr<GeneratedText> Run() {
    GeneratedText text;
    at::Tensor scores_V = LastScores(request_.prompt);
    for (int64_t i = 0; i < request_.max_tokens; ++i) {
      EVENSTEP_ASSIGN_OR_RETURN(const int32_t token,
                                ChooseToken({scores_V.const_data_ptr<float>(),
                                             static_cast<size_t>(num_tokens_)},
                                            request_.choice, i));
      text.ended = token == request_.end_token;
      if (text.ended) break;
      text.tokens.push_back(token);
      if (i + 1 < request_.max_tokens) scores_V = LastScores({token});
    }
    return text;
  }

 private:
  // After the last of these tokens, which come next in the text.
  at::Tensor LastScores(const std::vector<int32_t>& tokens) {
    const PackedShard shard = ShardOf(tokens, position_);
    position_ += static_cast<int64_t>(tokens.size());
    return model_->Logits(shard, attention_, {})
        .select(0, static_cast<int64_t>(tokens.size()) - 1)
        .to(at::kCPU, at::kFloat)
        .contiguous();
  }

  const TextRequest& request_;
  TextModel* const model_;
  const int64_t num_tokens_;
  CachedAttention attention_;
  int64_t position_ = 0;
};

}  // namespace

absl::StatusOr<GeneratedText> GenerateText(const TextRequest& request,
                                           TextModel* model) {
  EVENSTEP_RETURN_IF_ERROR(CheckPrompt(request.prompt, VocabOf(*model)));
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
  EVENSTEP_RETURN_IF_ERROR(CheckPrompt(prompt, VocabOf(*model)));
  const std::unique_ptr<Communicator> alone = MakeSelfCommunicator();
  at::Tensor logits_TV;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch("computing logits", [&] {
    const at::NoGradGuard without_graph;
    const PackedShard shard = ShardOf(prompt, 0);
    SequenceParallelAttention attention(alone.get(), &shard,
                                        IrregularHeads::kRefuse);
    logits_TV = model->Logits(shard, attention, {}).cpu().contiguous();
    return absl::OkStatus();
  }));
  return logits_TV;
}

}  // namespace evenstep::trainer
