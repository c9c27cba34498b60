#ifndef EVENSTEP_DATA_SENTENCEPIECE_MODEL_H_
#define EVENSTEP_DATA_SENTENCEPIECE_MODEL_H_

// Debian's SentencePiece behind standard types. Its header declares
// absl::string_view to be the standard one, and Debian's Abseil has its own:
// the two never meet in one file, so this one and its .cc use no Abseil. Called
// by tokenizer.cc only. Const calls are thread-safe.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace evenstep::data {

class SentencePieceModel {
 public:
  // Null, and why in `error`, when the bytes are no sound model.
  static std::unique_ptr<SentencePieceModel> Load(std::string_view bytes,
                                                  std::string* error);
  ~SentencePieceModel();

  // The library's message; empty: done.
  std::string Encode(std::string_view text, std::vector<int>* ids) const;
  std::string Decode(const std::vector<int>& ids, std::string* text) const;
  int num_pieces() const;
  int end_piece() const;  // below 0: none

 private:
  struct Library;
  explicit SentencePieceModel(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SENTENCEPIECE_MODEL_H_
