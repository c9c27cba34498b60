#include "data/index/content_sampler.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "data/index/indexed_file.h"

namespace evenstep::data {
namespace {

int64_t NumBlocks(int64_t bytes) {
  return (bytes + kContentBlockBytes - 1) / kContentBlockBytes;
}

}  // namespace

ContentSampler::ContentSampler(const std::vector<int64_t>& file_bytes,
                               const ContentBudget& budget) {
  int64_t blocks = 0;
  for (const int64_t bytes : file_bytes) blocks += NumBlocks(bytes);
  if (blocks > budget.whole_blocks) {
    stride_ = (blocks + budget.most_blocks - 1) / budget.most_blocks;
  }
}

std::vector<int64_t> ContentSampler::NextBlocks(int64_t num_blocks) {
  std::vector<int64_t> blocks;
  int64_t next = skip_;
  for (; next < num_blocks; next += stride_) blocks.push_back(next);
  skip_ = next - num_blocks;
  if (num_blocks < stride_ || num_blocks == 0) return blocks;
  if (blocks.front() != 0) blocks.insert(blocks.begin(), 0);
  if (blocks.back() != num_blocks - 1) blocks.push_back(num_blocks - 1);
  return blocks;
}

absl::Status ContentSampler::AddFile(
    const std::string& path, int64_t bytes,
    const std::function<void(absl::string_view)>& add) {
  const std::vector<int64_t> blocks = NextBlocks(NumBlocks(bytes));
  if (blocks.empty()) return absl::OkStatus();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  for (const int64_t index : blocks) {
    const int64_t offset = index * kContentBlockBytes;
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string block,
        ReadRange(fd.get(), path, offset,
                  std::min(kContentBlockBytes, bytes - offset)));
    add(block);
  }
  return absl::OkStatus();
}

}  // namespace evenstep::data
