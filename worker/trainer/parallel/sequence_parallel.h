#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_SEQUENCE_PARALLEL_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_SEQUENCE_PARALLEL_H_

// Attention over a micro-batch whose tokens are spread over its group: an
// exchange of heads inside u ranks around a gather of keys and values across c
// parts (sequence_layout.h); either may be absent. One object serves one
// micro-batch, in all its layers, forward and backward. Main thread.

#include <optional>

#include "absl/status/status.h"
#include "evenstep/trainer/model.h"
#include "evenstep/trainer/packed_shard.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/model/device_kernels.h"
#include "worker/trainer/parallel/gather_attention.h"
#include "worker/trainer/parallel/group_attention.h"
#include "worker/trainer/parallel/rank_subset.h"
#include "worker/trainer/parallel/ulysses.h"

namespace evenstep::trainer {

class SequenceParallelAttention : public GroupAttention {
 public:
  // Both outlive this object, and it outlives the graph. The group has
  // shard.degree ranks; alone, nothing is exchanged.
  SequenceParallelAttention(Communicator* group, const PackedShard* shard,
                            IrregularHeads irregular_heads);

  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD, AttentionMask mask) override;

  const absl::Status& status() const override;

 private:
  // Over the rows of this rank's part, which holds all its tokens.
  at::Tensor AttendInPart(const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, AttentionMask mask);

  const PackedShard* const shard_;
  const IrregularHeads irregular_heads_;
  RankSubset part_;   // ranks of this rank's part, which exchange heads
  RankSubset peers_;  // the same place in every part
  // Of all layers; tensors move to the device at the first.
  GatherPlan gather_plan_;                   // if there is more than one part
  std::optional<DocumentBounds> documents_;  // for flash attention
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_SEQUENCE_PARALLEL_H_
