// Megatron index files as a broken tool or disk may leave them. The documents
// of an accepted one must lie within the data file that it is told of.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/megatron/megatron_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr int64_t kDataBytes = 1000;
  const absl::string_view content(reinterpret_cast<const char*>(bytes), size);
  const auto index = evenstep::data::MegatronIndex::Parse(content);
  if (!index.ok()) return 0;
  const auto type = index->header().type;
  const int64_t token_bytes = evenstep::data::MegatronTokenBytes(type);
  for (int64_t i = 0; i < index->num_documents(); ++i) {
    const auto document = index->Document(i, kDataBytes);
    if (!document.problem.empty()) continue;
    const int64_t end = document.offset + document.num_tokens * token_bytes;
    if (document.offset < 0 || document.num_tokens < 0 || end > kDataBytes) {
      std::abort();
    }
  }
  const auto tokens = evenstep::data::DecodeMegatronTokens(type, content);
  if (!tokens.ok()) return 0;
  for (const int32_t token : *tokens) {
    if (token < 0) std::abort();
  }
  return 0;
}
