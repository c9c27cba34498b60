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

// A call's buffer on the host: the buffer itself, or a copy of it.
class Staged {
 public:
  Staged(void* data, int64_t bytes) : data_(data) {
    if (bytes > 0 && IsOnDevice(data)) copy_.resize(bytes);
  }
  void* get() { return copy_.empty() ? data_ : copy_.data(); }
  absl::Status Take() { return Move(copy_.data(), data_); }
  absl::Status PutBack() { return Move(data_, copy_.data()); }

 private:
  absl::Status Move(void* to, const void* from) const {
    return Copy(to, from, static_cast<int64_t>(copy_.size()));
  }

  void* const data_;
  std::vector<char> copy_;
};

// Bytes that the call reads from `send`, and writes to `recv`.
struct Sizes {
  int64_t sent = 0;
  int64_t received = 0;
};

Sizes SizesOf(const Collective& call, int rank) {
  const auto total = [](absl::Span<const int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  const int64_t element = ElementBytes(call.type);
  switch (call.kind) {
    case CollectiveKind::kAllToAll:
      return {total(call.send_counts), total(call.recv_counts)};
    case CollectiveKind::kAllGather:
      return {call.recv_counts[rank], total(call.recv_counts)};
    case CollectiveKind::kReduceScatter:
      return {total(call.send_counts) * element,
              call.send_counts[rank] * element};
    case CollectiveKind::kSend:
      return {call.count, 0};
    case CollectiveKind::kReceive:
      return {0, call.count};
    default:
      return {call.count * element, call.count * element};
  }
}

class StagedCommunicator : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

  absl::Status Run(const Collective& call) override {
    const Sizes sizes = SizesOf(call, rank());
    // A staged buffer that is only sent is only read.
    Staged from(const_cast<void*>(call.send), sizes.sent);
    Staged to(call.recv, sizes.received);
    const bool in_place = call.send == call.recv;
    EVENSTEP_RETURN_IF_ERROR(in_place ? to.Take() : from.Take());
    Collective staged = call;
    staged.send = in_place ? to.get() : from.get();
    staged.recv = to.get();
    EVENSTEP_RETURN_IF_ERROR(inner().Run(staged));
    return to.PutBack();
  }
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
