#ifndef EVENSTEP_DATA_MEGATRON_MEGATRON_INDEX_H_
#define EVENSTEP_DATA_MEGATRON_MEGATRON_INDEX_H_

// The index file (`.idx`) of Megatron-LM's indexed data sets: where the
// sequences of the data file (`.bin`) stand, and which of them make a document.
// Read by megatron_dataset.cc, written by megatron_writer.h. Pure; a parsed
// index points into the bytes it was parsed from, which outlive it.
//
// All integers are little-endian: magic "MMIDIDX\0\0" (9 bytes), version 1
// (uint64), a code for the tokens' type (uint8), the numbers S of sequences and
// D of document indices (uint64 each); then S lengths in tokens (int32), S
// offsets in bytes (int64), D document indices (int64): document i is the
// sequences from entry i up to entry i + 1. Multimodal files end with S modes
// (int8), of which 0 is text.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

enum class MegatronType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat64 = 6,
  kFloat32 = 7,
  kUint16 = 8,
};
inline constexpr int64_t kMegatronHeaderBytes = 34;

struct MegatronHeader {
  MegatronType type = MegatronType::kInt32;
  int64_t num_sequences = 0;
  int64_t num_indices = 0;  // one more than documents
};

struct MegatronDocument {
  int64_t offset = 0;  // in the data file, bytes
  int64_t num_tokens = 0;
  std::string problem;  // why it cannot be trained on; empty: none
};

class MegatronIndex {
 public:
  // DATA_LOSS: the bytes are no sound index. INVALID_ARGUMENT: sound, but its
  // tokens are not whole numbers.
  static absl::StatusOr<MegatronIndex> Parse(absl::string_view bytes);

  const MegatronHeader& header() const { return header_; }
  int64_t num_documents() const { return header_.num_indices - 1; }
  // `data_bytes`: size of the data file.
  MegatronDocument Document(int64_t document, int64_t data_bytes) const;

 private:
  int64_t Length(int64_t sequence) const;
  int64_t Offset(int64_t sequence) const;
  int64_t FirstSequence(int64_t document) const;
  int Mode(int64_t sequence) const;
  absl::Status CheckIndices() const;
  void AddSequence(int64_t sequence, MegatronDocument* document) const;

  MegatronHeader header_;
  absl::string_view bytes_;
};

// The first kMegatronHeaderBytes of an index. Errors as Parse.
absl::StatusOr<MegatronHeader> ParseMegatronHeader(absl::string_view bytes);
int64_t MegatronTokenBytes(MegatronType type);
// The largest of the tokens in bytes of a data file, and the position of the
// first such token. OUT_OF_RANGE: a token is below 0 or above 2^31 - 1; the
// message names it, counting from `first`.
struct LargestToken {
  int32_t id = -1;  // -1: there are no tokens
  int64_t at = 0;
};
absl::StatusOr<LargestToken> FindLargestToken(MegatronType type,
                                              absl::string_view bytes,
                                              int64_t first);
// Tokens from the bytes of a data file, a whole number of them. DATA_LOSS: a
// token below 0 or above 2^31 - 1.
absl::StatusOr<std::vector<int32_t>> DecodeMegatronTokens(
    MegatronType type, absl::string_view bytes);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_MEGATRON_MEGATRON_INDEX_H_
