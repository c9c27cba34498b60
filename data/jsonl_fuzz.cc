// Lines of JSONL files as an outsider may write them.
#include <cstddef>
#include <cstdint>

#include "data/jsonl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  evenstep::data::ParseJsonText(
      absl::string_view(reinterpret_cast<const char*>(bytes), size))
      .status()
      .IgnoreError();
  return 0;
}
