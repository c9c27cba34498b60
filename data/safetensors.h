#ifndef EVENSTEP_DATA_SAFETENSORS_H_
#define EVENSTEP_DATA_SAFETENSORS_H_

// The safetensors format: 8 bytes of little-endian header length, a JSON header
// {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {...}} padded
// with spaces to 8 bytes, then the tensors' bytes without holes. No torch here:
// tensors are names, shapes and bytes. Files load in Python's `safetensors` as
// they are. Thread-safe: no state.
//
//   WriteSafetensors(path, {{"w", "F32", {2, 3}, bytes}}, {{"step", "7"}});

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

struct TensorBytes {
  std::string name;
  std::string dtype;  // F64, F32, BF16, F16, I64, I32, I8, U8 or BOOL
  std::vector<int64_t> shape;
  absl::string_view bytes;  // row-major, little-endian; not owned
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// A file in memory. Tensors point into `storage`.
struct SafetensorsFile {
  SafetensorsMetadata metadata;
  std::vector<TensorBytes> tensors;  // in order of their bytes
  std::unique_ptr<const std::string> storage;

  const TensorBytes* Find(absl::string_view name) const;
};

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100 << 20;

// Where a tensor's bytes stand in its file.
struct TensorPlace {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// What a file's header says.
struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<TensorPlace> places;  // in order of their bytes

  const TensorPlace* Find(absl::string_view name) const;
};

// Called while a file is written, first with the bytes of its header, then
// with what has reached the disk.
using WriteProgress = std::function<void(int64_t bytes)>;

// Whole or absent (base/atomic_file.h). INVALID_ARGUMENT: two tensors of
// one name, an unknown dtype, or bytes that do not fit the shape.
absl::Status WriteSafetensors(const std::string& path,
                              std::vector<TensorBytes> tensors,
                              const SafetensorsMetadata& metadata,
                              const WriteProgress& on_written = nullptr);

// NOT_FOUND: no such file. FAILED_PRECONDITION: a folder. DATA_LOSS: not a
// whole safetensors file; the sentence says what is wrong, with the numbers, or
// what else it is.
absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path);
// The header alone, of a file of any size. The same errors.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(
    const std::string& path);
// Its tensors.
absl::StatusOr<std::vector<TensorPlace>> ReadSafetensorsPlaces(
    const std::string& path);
// The same as ReadSafetensors for bytes that are in memory; `name` is for
// messages.
absl::StatusOr<SafetensorsFile> ParseSafetensors(std::string bytes,
                                                 absl::string_view name);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SAFETENSORS_H_
