#include "tests/device/staged_communicator.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/cuda/nccl_functions.h"

namespace evenstep::trainer {
namespace {

int64_t Total(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

absl::Status Copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("a copy of ", bytes, " bytes: ", cudaGetErrorString(error)));
}

// Values of a call's buffer on the host: the buffer itself, or a copy of it.
template <typename T>
class Staged {
 public:
  Staged(T* data, int64_t count) : data_(data), count_(count) {
    if (count > 0 && IsOnDevice(data)) copy_.resize(count);
  }
  T* get() { return copy_.empty() ? data_ : copy_.data(); }
  absl::Span<T> span() { return absl::MakeSpan(get(), count_); }
  absl::Status Take() { return Move(copy_.data(), data_); }
  absl::Status PutBack() { return Move(data_, copy_.data()); }

 private:
  absl::Status Move(T* to, const T* from) const {
    if (copy_.empty()) return absl::OkStatus();
    return Copy(to, from, count_ * static_cast<int64_t>(sizeof(T)));
  }

  T* const data_;
  const int64_t count_;
  std::vector<T> copy_;
};

class StagedCommunicator : public Communicator {
 public:
  explicit StagedCommunicator(std::unique_ptr<Communicator> host)
      : host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status AllToAllv(const void* send, absl::Span<const int64_t> send_bytes,
                         void* recv,
                         absl::Span<const int64_t> recv_bytes) override {
    Staged<char> from(Bytes(send), Total(send_bytes));
    Staged<char> to(Bytes(recv), Total(recv_bytes));
    EVENSTEP_RETURN_IF_ERROR(from.Take());
    EVENSTEP_RETURN_IF_ERROR(
        host_->AllToAllv(from.get(), send_bytes, to.get(), recv_bytes));
    return to.PutBack();
  }
  absl::Status AllGatherv(const void* send, void* recv,
                          absl::Span<const int64_t> recv_bytes) override {
    Staged<char> from(Bytes(send), recv_bytes[rank()]);
    Staged<char> to(Bytes(recv), Total(recv_bytes));
    EVENSTEP_RETURN_IF_ERROR(from.Take());
    EVENSTEP_RETURN_IF_ERROR(
        host_->AllGatherv(from.get(), to.get(), recv_bytes));
    return to.PutBack();
  }
  absl::Status AllReduceSum(absl::Span<float> values) override {
    return Sum(values);
  }
  absl::Status AllReduceSum(absl::Span<double> values) override {
    return Sum(values);
  }
  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    return Sum(values);
  }
  absl::Status AllReduceMin(absl::Span<int64_t> values) override {
    Staged<int64_t> staged(values.data(), Count(values));
    EVENSTEP_RETURN_IF_ERROR(staged.Take());
    EVENSTEP_RETURN_IF_ERROR(host_->AllReduceMin(staged.span()));
    return staged.PutBack();
  }
  absl::Status ReduceScatterSum(absl::Span<const float> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<float> recv) override {
    return Scatter(send, counts, recv);
  }
  absl::Status ReduceScatterSum(absl::Span<const double> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<double> recv) override {
    return Scatter(send, counts, recv);
  }
  absl::Status Broadcast(void* data, int64_t bytes, int root) override {
    Staged<char> staged(Bytes(data), bytes);
    EVENSTEP_RETURN_IF_ERROR(staged.Take());
    EVENSTEP_RETURN_IF_ERROR(host_->Broadcast(staged.get(), bytes, root));
    return staged.PutBack();
  }
  absl::Status Send(const void* data, int64_t bytes, int peer) override {
    Staged<char> staged(Bytes(data), bytes);
    EVENSTEP_RETURN_IF_ERROR(staged.Take());
    return host_->Send(staged.get(), bytes, peer);
  }
  absl::Status Recv(void* data, int64_t bytes, int peer) override {
    Staged<char> staged(Bytes(data), bytes);
    EVENSTEP_RETURN_IF_ERROR(host_->Recv(staged.get(), bytes, peer));
    return staged.PutBack();
  }
  absl::Status Barrier() override { return host_->Barrier(); }
  void Abort(absl::string_view why) override { host_->Abort(why); }
  int64_t collective_ns() const override { return host_->collective_ns(); }
  int64_t collective_cpu_ns() const override {
    return host_->collective_cpu_ns();
  }

 private:
  // A staged buffer that is only sent is only read.
  static char* Bytes(const void* data) {
    return static_cast<char*>(const_cast<void*>(data));
  }
  template <typename T>
  static int64_t Count(absl::Span<T> values) {
    return static_cast<int64_t>(values.size());
  }
  template <typename T>
  absl::Status Sum(absl::Span<T> values) {
    Staged<T> staged(values.data(), Count(values));
    EVENSTEP_RETURN_IF_ERROR(staged.Take());
    EVENSTEP_RETURN_IF_ERROR(host_->AllReduceSum(staged.span()));
    return staged.PutBack();
  }
  template <typename T>
  absl::Status Scatter(absl::Span<const T> send,
                       absl::Span<const int64_t> counts, absl::Span<T> recv) {
    Staged<T> from(const_cast<T*>(send.data()), Count(send));
    Staged<T> to(recv.data(), Count(recv));
    EVENSTEP_RETURN_IF_ERROR(from.Take());
    EVENSTEP_RETURN_IF_ERROR(
        host_->ReduceScatterSum(from.span(), counts, to.span()));
    return to.PutBack();
  }

  const std::unique_ptr<Communicator> host_;
};

class StagedFactory : public CommunicatorFactory {
 public:
  explicit StagedFactory(std::unique_ptr<CommunicatorFactory> host)
      : host_(std::move(host)) {}
  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(auto host, host_->Create(key, block, world_rank));
    return std::make_unique<StagedCommunicator>(std::move(host));
  }
  void SetTimeout(absl::Duration timeout) override {
    host_->SetTimeout(timeout);
  }

 private:
  const std::unique_ptr<CommunicatorFactory> host_;
};

}  // namespace

std::unique_ptr<CommunicatorFactory> MakeStagedFactory(
    std::unique_ptr<CommunicatorFactory> host) {
  return std::make_unique<StagedFactory>(std::move(host));
}

}  // namespace evenstep::trainer
