// Index files as a crash or a bad disk may leave them. An accepted index is
// read to its last row. The checksum is set to fit first, or the fuzzer
// would never get past it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "data/index/content_hash.h"
#include "data/index/length_index.h"
#include "data/latents/clip_index.h"

using evenstep::data::ContentHasher;
using evenstep::data::IndexHeader;
using evenstep::data::LengthIndex;

namespace {

void FixChecksum(std::string* bytes) {
  constexpr size_t kAt = offsetof(IndexHeader, checksum);
  if (bytes->size() < sizeof(IndexHeader)) return;
  const absl::string_view view = *bytes;
  ContentHasher hash;
  hash.Add(view.substr(0, kAt));
  hash.Add(view.substr(kAt + sizeof(uint64_t)));
  const uint64_t value = hash.value();
  std::memcpy(bytes->data() + kAt, &value, sizeof(value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string content(reinterpret_cast<const char*>(bytes), size);
  FixChecksum(&content);
  const auto index = LengthIndex::FromBytes(std::move(content));
  if (!index.ok()) return 0;
  size_t total = index->notes().size();
  for (int64_t i = 0; i < index->num_documents(); ++i) {
    total += index->file_name(index->document(i).file).size();
    total += index->TrainedTokens(i, index->document(i).num_tokens / 2);
  }
  if (evenstep::data::CheckClips(*index).ok()) {
    for (int64_t i = 0; i < index->num_documents(); ++i) {
      total += evenstep::data::ClipOf(*index, i).name.size();
    }
  }
  return total == SIZE_MAX ? 1 : 0;
}
