#ifndef EVENSTEP_DATA_TEXT_TOKENIZER_H_
#define EVENSTEP_DATA_TEXT_TOKENIZER_H_

// Text into tokens and back: bytes, or a SentencePiece model. Used when text is
// indexed and read, and when text is generated. Const calls are thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace evenstep::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the tokens of the text, without an end token. INTERNAL: the library
  // refused the text.
  virtual absl::Status Encode(absl::string_view text,
                              std::vector<int32_t>* tokens) const = 0;
  // How many tokens Encode would append.
  virtual absl::StatusOr<int64_t> Count(absl::string_view text) const = 0;
  // End tokens leave nothing. OUT_OF_RANGE: a token outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> tokens) const = 0;
  virtual int32_t end_token() const = 0;
  // Tokens are in [0, vocab()).
  virtual int32_t vocab() const = 0;
  // Of the model's bytes; 0 for bytes as tokens.
  virtual uint64_t key() const = 0;
  // Whether every byte of a text is one token.
  virtual bool is_bytes() const { return false; }
};

std::unique_ptr<Tokenizer> ByteTokenizer();

// Whether there is a file of `path` that may be a SentencePiece model, by its
// first bytes. NOT_FOUND; INVALID_ARGUMENT: it is a folder or, by name,
// something else.
absl::Status LookForTokenizer(const std::string& path);

// `path` is a SentencePiece model; empty: bytes. NOT_FOUND; INVALID_ARGUMENT:
// no sound model, or one without an end piece.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_TOKENIZER_H_
