#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_GATHER_ATTENTION_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_GATHER_ATTENTION_H_

// Sequence parallelism by gathering keys and values (context parallelism of
// Llama 3, 2024): queries stay where they are, keys and values of all parts are
// gathered, forward and again in backward, so that no layer keeps them; their
// gradients go home by a reduce-scatter. Any degree is legal. Parts hold zigzag
// chunks (sequence_layout.h). Called by SequenceParallelAttention. Main thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "evenstep/trainer/model.h"
#include "worker/trainer/parallel/rank_subset.h"
#include "worker/trainer/parallel/sequence_layout.h"

namespace evenstep::trainer {

// Real queries of one chunk of a document, and where its keys are.
struct QueryChunk {
  int64_t row = 0;    // first row in the part
  int64_t begin = 0;  // positions [begin, end) of the document
  int64_t end = 0;
  int64_t document_start = 0;  // of the documents laid end to end
  int64_t document_length = 0;
};

// What the part's attention needs to know of a micro-batch; made once for all
// layers.
struct GatherPlan {
  int64_t part_tokens = 0;  // rows of every part
  int64_t real_tokens = 0;  // R, of all documents
  std::vector<QueryChunk> chunks;
  // [R]: row of each real token in the parts laid end to end, on the device of
  // the keys.
  at::Tensor rows_R;
};

// On the CPU.
GatherPlan MakeGatherPlan(absl::Span<const int64_t> lengths,
                          const SequenceLayout& layout, int part);

// [P, H, D], [P, G, D], [P, G, D] to [P, H, D] for the part's P rows; the
// output of padding is 0. `plan` and `ranks`, one of each part, outlive the
// graph.
at::Tensor GatherAttention(const at::Tensor& q_PHD, const at::Tensor& k_PGD,
                           const at::Tensor& v_PGD, const GatherPlan* plan,
                           RankSubset* ranks, AttentionMask mask);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_GATHER_ATTENTION_H_
