#ifndef EVENSTEP_WORKER_TRAINER_COMM_TREE_BLOCKS_H_
#define EVENSTEP_WORKER_TRAINER_COMM_TREE_BLOCKS_H_

// The aligned blocks of a world (see group_tree.h). Pure.

#include <string>
#include <vector>

#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

// Blocks of degree 2 and more that contain `rank`, smallest first; the world is
// the last one if world > 1. This order is the same for all ranks: no cycle of
// ranks that wait for each other can form.
std::vector<RankBlock> TreeBlocks(int rank, int world);

// "4+2": first rank and degree.
std::string BlockText(const RankBlock& block);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_TREE_BLOCKS_H_
