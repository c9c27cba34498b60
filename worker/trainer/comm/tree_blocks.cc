#include "worker/trainer/comm/tree_blocks.h"

#include "absl/strings/str_cat.h"

namespace evenstep::trainer {

std::vector<RankBlock> TreeBlocks(int rank, int world) {
  std::vector<RankBlock> blocks;
  for (int degree = 2; degree <= world; degree *= 2) {
    const RankBlock block{rank / degree * degree, degree};
    if (block.first_rank + degree <= world) blocks.push_back(block);
  }
  const RankBlock whole{0, world};
  if (world > 1 && (blocks.empty() || blocks.back() != whole)) {
    blocks.push_back(whole);
  }
  return blocks;
}

std::string BlockText(const RankBlock& block) {
  return absl::StrCat(block.first_rank, "+", block.degree);
}

}  // namespace evenstep::trainer
