// Weights files as an outsider may write them.
#include <cstddef>
#include <cstdint>
#include <string>

#include "data/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto file = evenstep::data::ParseSafetensors(
      std::string(reinterpret_cast<const char*>(bytes), size), "fuzz");
  if (!file.ok()) return 0;
  // Every view must lie within the file's own bytes.
  uint64_t sum = 0;
  for (const evenstep::data::TensorBytes& tensor : file->tensors) {
    for (char byte : tensor.bytes) sum += static_cast<unsigned char>(byte);
  }
  return sum == UINT64_MAX ? -1 : 0;
}
