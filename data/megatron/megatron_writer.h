#ifndef EVENSTEP_DATA_MEGATRON_MEGATRON_WRITER_H_
#define EVENSTEP_DATA_MEGATRON_MEGATRON_WRITER_H_

// Writes a pair PREFIX.bin and PREFIX.idx (megatron_index.h), one sequence a
// document. Tokens go to disk as they come; both files get their names only
// when all is written, the index last. Used by `evenstep data tokenize`. One
// thread.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "data/megatron/megatron_index.h"

namespace evenstep::data {

// Two bytes a token where the vocabulary allows it, else four.
MegatronType MegatronTypeFor(int64_t vocab);

class MegatronWriter {
 public:
  // The status of making PREFIX.bin.partial.
  static absl::StatusOr<MegatronWriter> Create(const std::string& prefix,
                                               MegatronType type);
  MegatronWriter(MegatronWriter&&) = default;
  ~MegatronWriter();  // removes what is not finished

  // INVALID_ARGUMENT: no token, or one that the type cannot hold.
  absl::Status AddDocument(absl::Span<const int32_t> tokens);
  absl::Status Finish() &&;

  int64_t num_documents() const {
    return static_cast<int64_t>(lengths_.size());
  }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  MegatronWriter(std::string prefix, MegatronType type, UniqueFd fd);
  std::string PartialPath() const { return prefix_ + ".bin.partial"; }
  absl::Status Flush();
  std::string IndexBytes() const;

  std::string prefix_;
  MegatronType type_;
  UniqueFd fd_;
  std::string buffer_;
  std::vector<int32_t> lengths_;
  int64_t num_tokens_ = 0;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_MEGATRON_MEGATRON_WRITER_H_
