#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_ULYSSES_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_ULYSSES_H_

// Sequence parallelism by exchange of heads (DeepSpeed Ulysses, Jacobs et al.,
// 2023): before attention an all-to-all turns "own tokens, all heads" into "all
// tokens, own heads", afterwards another turns the output back. With more ranks
// than key and value heads, each such head goes to degree / heads ranks, and
// its gradient is their sum. Called by SequenceParallelAttention. Main thread.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/status.h"
#include "worker/trainer/parallel/rank_subset.h"

namespace evenstep::trainer {

// What is done where the degree fits the query heads, but not the key and value
// heads: 40 and 8 at degree 5.
enum class IrregularHeads {
  kRefuse,
  kExpand,  // a copy of its key and value head for every query head
};

// INVALID_ARGUMENT with the numbers, unless `degree` divides the query heads
// and, under kRefuse, either divides the key and value heads or is a multiple
// of them.
absl::Status CheckHeads(int64_t heads, int64_t kv_heads, int64_t degree,
                        IrregularHeads irregular);

// All tokens of own heads.
struct OwnHeads {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

// Own tokens [T, H, D], [T, G, D], [T, G, D] of all heads to all tokens
// [P T, H / P, D] and so on of own heads. CheckHeads has passed. `ranks`
// outlives the graph; more than one.
OwnHeads ScatterHeads(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                      const at::Tensor& v_TGD, RankSubset* ranks);

// The way back for the output: [P T, H / P, D] to [T, H, D].
at::Tensor GatherHeads(const at::Tensor& out_ShD, RankSubset* ranks);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_ULYSSES_H_
