#ifndef EVENSTEP_DATA_TEXT_TEXT_DOCUMENT_H_
#define EVENSTEP_DATA_TEXT_TEXT_DOCUMENT_H_

// One document of text before it is tokens: parts that are trained, and parts
// that only stand before them (prompts), which carry no loss. Parts are
// tokenized one by one, so that a mask's border is a border of tokens, as it is
// when the model later answers a prompt. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "data/text/tokenizer.h"

namespace evenstep::data {

enum class Loss { kTrained, kMasked };

struct TextPart {
  std::string text;
  Loss loss = Loss::kTrained;
  bool ends = false;  // an end token follows, with the same loss
};
using TextDocument = std::vector<TextPart>;

struct DocumentSize {
  int64_t num_tokens = 0;
  // Those that have a loss: all tokens of trained parts but the document's
  // first.
  int64_t num_trained = 0;
  // Begin and end of each run of them, ascending.
  std::vector<int64_t> trained_runs;
};
absl::StatusOr<DocumentSize> MeasureDocument(const TextDocument& document,
                                             const Tokenizer& tokenizer);

// The first `max_length` tokens.
absl::StatusOr<SampleTokens> EncodeDocument(const TextDocument& document,
                                            const Tokenizer& tokenizer,
                                            int64_t max_length);

// Tokens that are all trained, such as those of a whole file.
SampleTokens TrainAll(std::vector<int32_t> tokens);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_TEXT_DOCUMENT_H_
