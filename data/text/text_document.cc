#include "data/text/text_document.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace evenstep::data {

absl::StatusOr<DocumentSize> MeasureDocument(const TextDocument& document,
                                             const Tokenizer& tokenizer) {
  DocumentSize size;
  std::vector<int64_t>& runs = size.trained_runs;
  for (const TextPart& part : document) {
    EVENSTEP_ASSIGN_OR_RETURN(int64_t added, tokenizer.Count(part.text));
    if (part.ends) ++added;
    const int64_t begin = std::max<int64_t>(size.num_tokens, 1);
    const int64_t end = size.num_tokens += added;
    if (part.loss != Loss::kTrained || end <= begin) continue;
    size.num_trained += end - begin;
    if (!runs.empty() && runs.back() == begin) {
      runs.back() = end;
    } else {
      runs.insert(runs.end(), {begin, end});
    }
  }
  return size;
}

absl::StatusOr<SampleTokens> EncodeDocument(const TextDocument& document,
                                            const Tokenizer& tokenizer,
                                            int64_t max_length) {
  SampleTokens sample;
  std::vector<int32_t> labels;  // the token where it is trained
  for (const TextPart& part : document) {
    const size_t begin = sample.tokens.size();
    EVENSTEP_RETURN_IF_ERROR(tokenizer.Encode(part.text, &sample.tokens));
    if (part.ends) sample.tokens.push_back(tokenizer.end_token());
    if (part.loss == Loss::kTrained) {
      labels.insert(labels.end(), sample.tokens.begin() + begin,
                    sample.tokens.end());
    } else {
      labels.resize(sample.tokens.size(), kIgnoredTarget);
    }
  }
  const auto length =
      static_cast<size_t>(std::min<int64_t>(max_length, sample.tokens.size()));
  if (length == 0) return sample;
  sample.tokens.resize(length);
  sample.targets.assign(labels.begin() + 1, labels.begin() + length);
  sample.targets.push_back(kIgnoredTarget);
  return sample;
}

SampleTokens TrainAll(std::vector<int32_t> tokens) {
  SampleTokens sample;
  sample.tokens = std::move(tokens);
  if (sample.tokens.empty()) return sample;
  sample.targets.assign(sample.tokens.begin() + 1, sample.tokens.end());
  sample.targets.push_back(kIgnoredTarget);
  return sample;
}

}  // namespace evenstep::data
