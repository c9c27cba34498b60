#ifndef EVENSTEP_DATA_TEXT_SENTENCEPIECE_PLUGIN_H_
#define EVENSTEP_DATA_TEXT_SENTENCEPIECE_PLUGIN_H_

// What libevenstep_sentencepiece.so offers to sentencepiece_model.cc, which
// loads it: plain functions, because nothing of C++ may cross. Debian's
// SentencePiece exports a protobuf of its own, older than the one in our
// processes, so the two must not be linked together (ADR 16). Const calls are
// thread-safe; an error is a text in `error`, cut to `error_bytes` with its 0.

#include <cstddef>

extern "C" {

struct EvenstepSentencePiece {
  // A model; null: `error` says why.
  void* (*load)(const char* bytes, size_t size, char* error,
                size_t error_bytes);
  void (*release)(void* model);
  // Gives all ids in one call of `take`. False: `error` says why.
  bool (*encode)(const void* model, const char* text, size_t size,
                 void (*take)(void* to, const int* ids, size_t count), void* to,
                 char* error, size_t error_bytes);
  bool (*decode)(const void* model, const int* ids, size_t count,
                 void (*take)(void* to, const char* text, size_t size),
                 void* to, char* error, size_t error_bytes);
  int (*num_pieces)(const void* model);
  int (*end_piece)(const void* model);  // below 0: none
};

// The one symbol that is looked for.
const EvenstepSentencePiece* EvenstepSentencePieceFunctions();

}  // extern "C"

#endif  // EVENSTEP_DATA_TEXT_SENTENCEPIECE_PLUGIN_H_
