#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_ULYSSES_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_ULYSSES_H_

// Sequence parallelism by exchange of heads (DeepSpeed Ulysses, Jacobs et al.,
// 2023): before attention an all-to-all turns "own tokens, all heads" into "all
// tokens, own heads", afterwards another turns the output back. With more ranks
// than key and value heads, each such head goes to degree / heads ranks, and
// its gradient is their sum. One object serves one micro-batch; main thread.

#include <memory>

#include "absl/status/status.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/model/packed_shard.h"

namespace evenstep::trainer {

// INVALID_ARGUMENT with the numbers, unless `degree` divides the query heads
// and either divides the key and value heads or is a multiple of them.
absl::Status CheckHeads(int64_t heads, int64_t kv_heads, int64_t degree);

class UlyssesAttention : public SequenceAttention {
 public:
  // Both outlive this object, and it outlives the graph. The group has
  // shard.degree ranks; alone, nothing is exchanged.
  UlyssesAttention(Communicator* group, const PackedShard* shard);

  // Throws after an error, forward or backward, since autograd knows nothing
  // else; status() then holds it.
  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD) override;

  const absl::Status& status() const { return status_; }

 private:
  friend struct UlyssesExchange;

  Communicator* const group_;
  const PackedShard* const shard_;
  absl::Status status_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_ULYSSES_H_
