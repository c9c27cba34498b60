#ifndef EVENSTEP_DATA_LATENTS_CLIP_INDEX_H_
#define EVENSTEP_DATA_LATENTS_CLIP_INDEX_H_

// Clips of latents in a length index: what is written while their files are
// read, and what a row says of its clip. Nothing of a job is in it: sides are
// in latent pixels, whatever its patches are. Stateless functions.
//
// A row's number is the tensor's place in its file, from 1; its num_tokens are
// frames x height x width. Its details: frames, height, width, channels,
// ValueType, and where the tensor's name is in LengthIndex::names() (offset,
// bytes).

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "data/index/build_index.h"
#include "data/index/length_index.h"
#include "data/text/file_list.h"

namespace evenstep::data {

enum class ValueType { kF32 = 0, kF16 = 1, kBf16 = 2 };
absl::string_view ValueTypeName(ValueType type);  // as safetensors has it
int64_t BytesPerValue(ValueType type);
float ValueAt(absl::string_view bytes, ValueType type, int64_t index);

struct IndexedClip {
  int64_t frames = 0;
  int64_t height = 0;  // in latent pixels, as `width`
  int64_t width = 0;
  int64_t channels = 0;  // of a latent
  ValueType type = ValueType::kF32;
  absl::string_view name;  // of the tensor
};

// Reads every clip of the files. A tensor that is not a clip, and one that has
// a value that is not finite, is bad, by name and element.
absl::Status ScanClips(const FileList& list, IndexBuilder* builder);

// DATA_LOSS: a row is not a clip's.
absl::Status CheckClips(const LengthIndex& index);
// The index passed CheckClips, and outlives the result.
IndexedClip ClipOf(const LengthIndex& index, int64_t row);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_LATENTS_CLIP_INDEX_H_
