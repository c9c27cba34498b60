#ifndef EVENSTEP_DATA_TESTING_PACKED_BYTES_H_
#define EVENSTEP_DATA_TESTING_PACKED_BYTES_H_

// Compressed bytes for tests.

#include <zlib.h>
#include <zstd.h>

#include <string>

#include "absl/strings/string_view.h"

namespace evenstep::data {

inline std::string Gzip(absl::string_view text) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string Zstd(absl::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(
      ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TESTING_PACKED_BYTES_H_
