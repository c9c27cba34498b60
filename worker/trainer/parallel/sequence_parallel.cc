#include "worker/trainer/parallel/sequence_parallel.h"

#include <utility>

#include "worker/trainer/model/varlen_attention.h"

namespace evenstep::trainer {

SequenceParallelAttention::SequenceParallelAttention(
    Communicator* group, const PackedShard* shard,
    IrregularHeads irregular_heads)
    : shard_(shard),
      irregular_heads_(irregular_heads),
      part_(group,
            group->rank() / shard->ulysses_degree * shard->ulysses_degree,
            /*stride=*/1, shard->ulysses_degree),
      peers_(group, group->rank() % shard->ulysses_degree,
             shard->ulysses_degree, shard->gather_degree) {
  if (shard->gather_degree == 1) return;
  gather_plan_ = MakeGatherPlan(shard->document_lengths,
                                {shard->ulysses_degree, shard->gather_degree},
                                peers_.rank());
}

at::Tensor SequenceParallelAttention::Attend(const at::Tensor& q_THD,
                                             const at::Tensor& k_TGD,
                                             const at::Tensor& v_TGD,
                                             AttentionMask mask) {
  if (part_.size() == 1) return AttendInPart(q_THD, k_TGD, v_TGD, mask);
  absl::Status fits =
      CheckHeads(q_THD.size(1), k_TGD.size(1), part_.size(), irregular_heads_);
  if (!fits.ok()) part_.Fail(std::move(fits));
  const OwnHeads own = ScatterHeads(q_THD, k_TGD, v_TGD, &part_);
  return GatherHeads(AttendInPart(own.q, own.k, own.v, mask), &part_);
}

at::Tensor SequenceParallelAttention::AttendInPart(const at::Tensor& q,
                                                   const at::Tensor& k,
                                                   const at::Tensor& v,
                                                   AttentionMask mask) {
  if (shard_->gather_degree > 1) {
    gather_plan_.rows_R = gather_plan_.rows_R.to(k.device());
    return GatherAttention(q, k, v, &gather_plan_, &peers_, mask);
  }
  if (!HasFlashAttention(q)) {
    return VarlenAttention(q, k, v, shard_->document_lengths, mask);
  }
  if (!documents_.has_value()) {
    documents_ = MakeDocumentBounds(shard_->document_lengths, q.device());
  }
  return FlashVarlenAttention(q, k, v, *documents_, mask);
}

const absl::Status& SequenceParallelAttention::status() const {
  return part_.status().ok() ? peers_.status() : part_.status();
}

}  // namespace evenstep::trainer
