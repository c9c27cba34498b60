#ifndef EVENSTEP_DATA_TESTING_MEGATRON_BYTES_H_
#define EVENSTEP_DATA_TESTING_MEGATRON_BYTES_H_

// Bytes of Megatron's files, written from the format's description and from
// nothing that the product shares, so that a test can disagree with the reader
// and the writer. For tests only.

#include <cstdint>
#include <string>
#include <vector>

namespace evenstep::data {

// `value` as `size` bytes, lowest first.
inline void PutNumber(int64_t value, int size, std::string* out) {
  for (int i = 0; i < size; ++i) {
    out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

struct MegatronFile {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  int64_t version = 1;
  int type = 4;  // int32
  int token_bytes = 4;
  std::vector<int64_t> lengths = {2};
  std::vector<int64_t> indices = {0, 1};
  std::vector<int64_t> offsets = {};  // empty: one behind the other
  std::vector<int64_t> modes = {};    // empty: not multimodal
};

inline std::string IndexBytes(const MegatronFile& file) {
  std::string out = file.magic;
  PutNumber(file.version, 8, &out);
  PutNumber(file.type, 1, &out);
  PutNumber(static_cast<int64_t>(file.lengths.size()), 8, &out);
  PutNumber(static_cast<int64_t>(file.indices.size()), 8, &out);
  for (const int64_t length : file.lengths) PutNumber(length, 4, &out);
  int64_t offset = 0;
  for (size_t i = 0; i < file.lengths.size(); ++i) {
    PutNumber(file.offsets.empty() ? offset : file.offsets[i], 8, &out);
    offset += file.lengths[i] * file.token_bytes;
  }
  for (const int64_t index : file.indices) PutNumber(index, 8, &out);
  for (const int64_t mode : file.modes) PutNumber(mode, 1, &out);
  return out;
}

inline std::string TokenBytes(const std::vector<int64_t>& tokens,
                              int token_bytes) {
  std::string out;
  for (const int64_t token : tokens) PutNumber(token, token_bytes, &out);
  return out;
}

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TESTING_MEGATRON_BYTES_H_
