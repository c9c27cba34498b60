#ifndef EVENSTEP_DATA_INDEX_CONTENT_SAMPLER_H_
#define EVENSTEP_DATA_INDEX_CONTENT_SAMPLER_H_

// Which bytes of a data set's files go into its content key, where indexing
// does not read all of them anyway: all blocks of a small data set, and a
// bounded number of a large one, chosen by names and sizes alone, so that all
// nodes choose the same. Blocks have 64 KiB; a file has one at least.
//
// Of more than `whole_blocks`, every k-th block is read, counted over all files
// in their order, and the first and the last block of files of k blocks and
// more; k is the least that leaves `most_blocks`. So two data sets of the same
// names and sizes are told apart if they differ throughout (another
// tokenizer, another order), or in any run of k blocks, such as the part that a
// broken copy left empty. A difference of a few bytes in a large data set may
// stand between the blocks that are read.
//
// Used while a data set is indexed; not thread-safe.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

struct ContentBudget {
  int64_t whole_blocks = 16384;  // 1 GiB
  int64_t most_blocks = 4096;    // 256 MiB, first and last ones apart
};
inline constexpr int64_t kContentBlockBytes = int64_t{64} << 10;

class ContentSampler {
 public:
  // `file_bytes`: of the files that follow, in their order.
  explicit ContentSampler(const std::vector<int64_t>& file_bytes,
                          const ContentBudget& budget = {});

  // Hands the chosen blocks of the next file to `add`, first to last. DATA_LOSS
  // where it has fewer bytes than were said; or why it cannot be read.
  absl::Status AddFile(const std::string& path, int64_t bytes,
                       const std::function<void(absl::string_view)>& add);

  int64_t stride() const { return stride_; }  // k; 1: all is read

 private:
  // Of a file of so many blocks, ascending.
  std::vector<int64_t> NextBlocks(int64_t num_blocks);

  int64_t stride_ = 1;
  int64_t skip_ = 0;  // blocks until the next one that is read
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_CONTENT_SAMPLER_H_
