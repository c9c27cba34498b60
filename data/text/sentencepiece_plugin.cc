// libevenstep_sentencepiece.so. No Abseil here: the library's header declares
// absl::string_view to be the standard one, and Debian's Abseil has its own.
#include "data/text/sentencepiece_plugin.h"

#include <sentencepiece_processor.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;

bool Fail(const std::string& why, char* error, size_t error_bytes) {
  std::strncpy(error, why.c_str(), error_bytes - 1);
  error[error_bytes - 1] = '\0';
  return false;
}

const SentencePieceProcessor& Of(const void* model) {
  return *static_cast<const SentencePieceProcessor*>(model);
}

void* Load(const char* bytes, size_t size, char* error, size_t error_bytes) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto({bytes, size});
  if (status.ok()) return processor.release();
  Fail(status.ToString(), error, error_bytes);
  return nullptr;
}

void Release(void* model) {
  delete static_cast<SentencePieceProcessor*>(model);
}

bool Encode(const void* model, const char* text, size_t size,
            void (*take)(void* to, const int* ids, size_t count), void* to,
            char* error, size_t error_bytes) {
  std::vector<int> ids;
  const auto status = Of(model).Encode({text, size}, &ids);
  if (!status.ok()) return Fail(status.ToString(), error, error_bytes);
  take(to, ids.data(), ids.size());
  return true;
}

bool Decode(const void* model, const int* ids, size_t count,
            void (*take)(void* to, const char* text, size_t size), void* to,
            char* error, size_t error_bytes) {
  std::string text;
  const auto status =
      Of(model).Decode(std::vector<int>(ids, ids + count), &text);
  if (!status.ok()) return Fail(status.ToString(), error, error_bytes);
  take(to, text.data(), text.size());
  return true;
}

int NumPieces(const void* model) { return Of(model).GetPieceSize(); }
int EndPiece(const void* model) { return Of(model).eos_id(); }

}  // namespace

const EvenstepSentencePiece* EvenstepSentencePieceFunctions() {
  static const EvenstepSentencePiece kFunctions = {Load,   Release,   Encode,
                                                   Decode, NumPieces, EndPiece};
  return &kFunctions;
}
