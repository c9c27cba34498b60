#ifndef EVENSTEP_DATA_TEXT_UNPACK_H_
#define EVENSTEP_DATA_TEXT_UNPACK_H_

// Compressed files of text, recognised by their first bytes: gzip (zlib) and
// Zstandard. Unpacked as a stream, to a bound that the caller sets, so a small
// file cannot fill memory or disk. An Unpacker is used by one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

enum class Packing { kNone, kGzip, kZstd };

// `head`: the first kPackingBytes of a file, or more.
inline constexpr int64_t kPackingBytes = 4;
Packing PackingOf(absl::string_view head);

class Unpacker {
 public:
  // Takes unpacked bytes, in order. False: no more are wanted.
  using Take = std::function<bool(absl::string_view)>;

  virtual ~Unpacker() = default;
  // INVALID_ARGUMENT: the bytes are no sound data of this packing.
  // RESOURCE_EXHAUSTED: more than the bound.
  virtual absl::Status Add(absl::string_view packed) = 0;
  // INVALID_ARGUMENT: the data ends early.
  virtual absl::Status Finish() = 0;
  // Whether Take wants no more; what follows is not looked at.
  bool stopped() const { return stopped_; }

 protected:
  Unpacker(int64_t max_bytes, Take take)
      : max_bytes_(max_bytes), take_(std::move(take)) {}
  absl::Status Hand(absl::string_view bytes);
  absl::Status Damaged(absl::string_view how) const;

 private:
  const int64_t max_bytes_;
  const Take take_;
  int64_t num_bytes_ = 0;
  bool stopped_ = false;
};

// `packing` is not kNone.
std::unique_ptr<Unpacker> MakeUnpacker(Packing packing, int64_t max_bytes,
                                       Unpacker::Take take);

// Reads a file, unpacked by its first bytes, or as it is if it is not packed.
// Errors of opening, of reading, and of the Unpacker. No bound on files that
// are not packed.
absl::Status ReadUnpacked(const std::string& path, int64_t max_bytes,
                          const Unpacker::Take& take);
// Whole. RESOURCE_EXHAUSTED: more than max_bytes, packed or not.
absl::StatusOr<std::string> ReadWholeUnpacked(const std::string& path,
                                              int64_t max_bytes);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_UNPACK_H_
