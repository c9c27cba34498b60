// Weights files as an outsider may write them, read whole and by the header
// alone, as models are looked at before memory is taken for them.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "data/safetensors.h"

namespace {

using evenstep::data::SafetensorsFile;
using evenstep::data::SafetensorsHeader;

absl::StatusOr<SafetensorsHeader> HeaderOf(const std::string& bytes) {
  const int fd = memfd_create("weights", MFD_CLOEXEC);
  if (fd < 0) abort();
  if (write(fd, bytes.data(), bytes.size()) !=
      static_cast<ssize_t>(bytes.size())) {
    abort();
  }
  auto header = evenstep::data::ReadSafetensorsHeader("/proc/self/fd/" +
                                                      std::to_string(fd));
  close(fd);
  return header;
}

void CheckSame(const SafetensorsFile& file, const SafetensorsHeader& header) {
  if (file.metadata != header.metadata ||
      file.tensors.size() != header.places.size()) {
    abort();
  }
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    if (file.tensors[i].shape != header.places[i].shape) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto file = evenstep::data::ParseSafetensors(bytes, "fuzz");
  const auto header = HeaderOf(bytes);
  if (file.ok() != header.ok()) abort();
  if (!file.ok()) return 0;
  CheckSame(*file, *header);
  // Every view must lie within the file's own bytes.
  uint64_t sum = 0;
  for (const evenstep::data::TensorBytes& tensor : file->tensors) {
    for (char byte : tensor.bytes) sum += static_cast<unsigned char>(byte);
  }
  return sum == UINT64_MAX ? -1 : 0;
}
