#include "worker/trainer/parallel/rank_subset.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <numeric>
#include <stdexcept>
#include <utility>

namespace evenstep::trainer {
namespace {

std::vector<int64_t> WithFirst(int64_t size, at::IntArrayRef rest) {
  std::vector<int64_t> sizes = {size};
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  return sizes;
}

}  // namespace

RankSubset::RankSubset(Communicator* group, int first, int stride, int size)
    : group_(group), first_(first), stride_(stride), size_(size) {}

std::vector<int64_t> RankSubset::Counts(int64_t bytes) const {
  std::vector<int64_t> counts(group_->size(), 0);
  for (int i = 0; i < size_; ++i) counts[first_ + i * stride_] = bytes;
  return counts;
}

at::Tensor RankSubset::AllToAll(const at::Tensor& send_P) {
  const at::Tensor send = send_P.contiguous();
  at::Tensor recv = at::empty(send.sizes(), send.options());
  const std::vector<int64_t> counts =
      Counts(static_cast<int64_t>(send.nbytes()) / size_);
  absl::Status status = group_->AllToAllv(send.const_data_ptr(), counts,
                                          recv.mutable_data_ptr(), counts);
  if (!status.ok()) Fail(std::move(status));
  return recv;
}

std::vector<int64_t> RankSubset::RowCounts(const std::vector<int64_t>& rows,
                                           int64_t bytes_per_row) const {
  std::vector<int64_t> counts(group_->size(), 0);
  for (int i = 0; i < size_; ++i) {
    counts[first_ + i * stride_] = rows[i] * bytes_per_row;
  }
  return counts;
}

at::Tensor RankSubset::AllToAllRows(const at::Tensor& rows,
                                    const std::vector<int64_t>& send_rows,
                                    const std::vector<int64_t>& recv_rows) {
  if (size_ == 1) return rows;
  const at::Tensor send = rows.contiguous();
  const int64_t total =
      std::accumulate(recv_rows.begin(), recv_rows.end(), int64_t{0});
  at::Tensor recv =
      at::empty(WithFirst(total, send.sizes().slice(1)), send.options());
  const auto bytes_per_row = static_cast<int64_t>(send.element_size()) *
                             c10::multiply_integers(send.sizes().slice(1));
  absl::Status status = group_->AllToAllv(
      send.const_data_ptr(), RowCounts(send_rows, bytes_per_row),
      recv.mutable_data_ptr(), RowCounts(recv_rows, bytes_per_row));
  if (!status.ok()) Fail(std::move(status));
  return recv;
}

at::Tensor RankSubset::AllGather(const at::Tensor& own) {
  const std::vector<int64_t> sizes = WithFirst(size_, own.sizes());
  if (size_ < group_->size()) {
    return AllToAll(own.unsqueeze(0).expand(sizes));
  }
  const at::Tensor send = own.contiguous();
  at::Tensor recv = at::empty(sizes, own.options());
  absl::Status status =
      group_->AllGatherv(send.const_data_ptr(), recv.mutable_data_ptr(),
                         Counts(static_cast<int64_t>(send.nbytes())));
  if (!status.ok()) Fail(std::move(status));
  return recv;
}

at::Tensor RankSubset::ReduceScatterSum(const at::Tensor& parts_P) {
  const at::ScalarType type = parts_P.scalar_type();
  const at::ScalarType sum_type = type == at::kBFloat16 ? at::kFloat : type;
  const at::Tensor parts = AllToAll(parts_P);
  at::Tensor sum = parts[0].to(sum_type, /*non_blocking=*/false, /*copy=*/true);
  for (int p = 1; p < size_; ++p) sum.add_(parts[p]);
  return sum.to(type);
}

void RankSubset::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  throw std::runtime_error(std::string(status_.message()));
}

}  // namespace evenstep::trainer
