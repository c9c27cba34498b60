#ifndef EVENSTEP_BASE_FNV1A_H_
#define EVENSTEP_BASE_FNV1A_H_

// FNV-1a, 64 bits: names content and finds corruption; no defence against
// anybody who wants two contents to look alike. Any change of a single byte
// changes it. A plain value.

#include <cstdint>

#include "absl/strings/string_view.h"

namespace evenstep {

class Fnv1a64 {
 public:
  void AddBytes(absl::string_view bytes) {
    for (const char c : bytes) AddByte(static_cast<unsigned char>(c));
  }
  // As eight bytes, lowest first.
  void AddInt(int64_t value) {
    auto bits = static_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) AddByte(bits & 0xff);
  }
  // With its size, so that the end of one string is not the start of the next.
  void AddString(absl::string_view text) {
    AddInt(static_cast<int64_t>(text.size()));
    AddBytes(text);
  }
  uint64_t value() const { return hash_; }

 private:
  void AddByte(uint64_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ULL; }

  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_FNV1A_H_
