#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_RANK_SUBSET_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_RANK_SUBSET_H_

// Collectives on tensors over some ranks of a group, all on the group's own
// communicator: those outside the subset send and receive nothing. So a
// micro-batch that splits its group in two ways needs no further groups. All
// subsets of one split call at the same time. Main thread only.
//
// Errors are thrown, since autograd knows nothing else; status() then holds the
// first one.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

class RankSubset {
 public:
  // Ranks first, first + stride, ... of the group, `size` of them; the group's
  // own rank is one. `group` outlives the subset.
  RankSubset(Communicator* group, int first, int stride, int size);

  int size() const { return size_; }
  int rank() const { return (group_->rank() - first_) / stride_; }
  const absl::Status& status() const { return status_; }

  // Slice p of `send_P` to rank p, and from rank p into slice p of the result.
  at::Tensor AllToAll(const at::Tensor& send_P);
  // The same with slices of any number of rows: send_rows[p] of them go to rank
  // p, and recv_rows[p] come from it, end to end.
  at::Tensor AllToAllRows(const at::Tensor& rows,
                          const std::vector<int64_t>& send_rows,
                          const std::vector<int64_t>& recv_rows);
  // Every rank's tensor, laid side by side along a new first dimension.
  at::Tensor AllGather(const at::Tensor& own);
  // The sum over ranks of this rank's slice of `parts_P`, in the order of
  // ranks; half precision is summed in float32.
  at::Tensor ReduceScatterSum(const at::Tensor& parts_P);

  [[noreturn]] void Fail(absl::Status status);

 private:
  // Bytes for each rank of the group: `bytes` for the subset's, else 0.
  std::vector<int64_t> Counts(int64_t bytes) const;
  // By rank of the group, from numbers of rows by rank of the subset.
  std::vector<int64_t> RowCounts(const std::vector<int64_t>& rows,
                                 int64_t bytes_per_row) const;

  Communicator* const group_;
  const int first_;
  const int stride_;
  const int size_;
  absl::Status status_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_RANK_SUBSET_H_
