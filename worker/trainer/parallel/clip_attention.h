#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_ATTENTION_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_ATTENTION_H_

// Attention over a micro-batch of clips that is spread over its group, in one
// of two ways (clip_layout.h). Switching: Arrange moves tokens by one
// all-to-all, and each rank attends to whole frames, or to all frames of whole
// patches, on its own. In runs: Arrange does nothing, and heads are exchanged
// around attention as in ulysses.h. One object serves one micro-batch, in all
// its layers, forward and backward. Main thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "evenstep/trainer/model.h"
#include "evenstep/trainer/packed_shard.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/model/batched_attention.h"
#include "worker/trainer/parallel/group_attention.h"
#include "worker/trainer/parallel/rank_subset.h"

namespace evenstep::trainer {

// A ClipSwitch as tensors, with its inverse.
struct ClipExchange {
  at::Tensor send_order;
  at::Tensor send_inverse;
  at::Tensor recv_order;
  at::Tensor recv_inverse;
  std::vector<int64_t> send_tokens;
  std::vector<int64_t> recv_tokens;
};

class GroupClipAttention : public GroupAttention, public ClipAttention {
 public:
  // Both outlive this object, and it outlives the graph. `shard` has clips.
  GroupClipAttention(Communicator* group, const PackedShard* shard);

  ClipAttention* clips() override { return this; }
  at::Tensor Arrange(const at::Tensor& x_TW, ClipAxis axis) override;
  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_THD,
                    const at::Tensor& v_THD, ClipAxis axis) override;
  // Refused: a clip has no one order of tokens that a mask could mean.
  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD, AttentionMask mask) override;

  const absl::Status& status() const override { return ranks_.status(); }

 private:
  at::Tensor AttendInRuns(const at::Tensor& q_THD, const at::Tensor& k_THD,
                          const at::Tensor& v_THD, ClipAxis axis);

  const bool switches_;
  RankSubset ranks_;  // the whole group
  // Switching: as this rank holds them. In runs: of all clips.
  std::vector<SequenceBatch> frames_;   // sequences of patches
  std::vector<SequenceBatch> patches_;  // sequences of frames
  ClipExchange exchange_;  // in runs: of one rank that holds everything
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_ATTENTION_H_
