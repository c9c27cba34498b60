#ifndef EVENSTEP_DATA_TEXT_SENTENCEPIECE_MODEL_H_
#define EVENSTEP_DATA_TEXT_SENTENCEPIECE_MODEL_H_

// Debian's SentencePiece, loaded when the first tokenizer is opened: programs
// start without it, and its protobuf stays apart from ours
// (sentencepiece_plugin.h). Called by tokenizer.cc only. Const calls are
// thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct EvenstepSentencePiece;

namespace evenstep::data {

class SentencePieceModel {
 public:
  // INVALID_ARGUMENT: the bytes are no sound model. UNAVAILABLE: the library
  // cannot be loaded, with the places that were looked at.
  static absl::StatusOr<std::unique_ptr<SentencePieceModel>> Load(
      absl::string_view bytes);
  ~SentencePieceModel();

  // Appends. INTERNAL: the library's message.
  absl::Status Encode(absl::string_view text, std::vector<int32_t>* ids) const;
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const;
  int32_t num_pieces() const;
  int32_t end_piece() const;  // below 0: none

 private:
  SentencePieceModel(const EvenstepSentencePiece* functions, void* model)
      : functions_(functions), model_(model) {}

  const EvenstepSentencePiece* const functions_;
  void* const model_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_SENTENCEPIECE_MODEL_H_
