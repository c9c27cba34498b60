#include "worker/trainer/comm/two_memory_communicator.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

class TwoMemoryCommunicator : public Communicator {
 public:
  TwoMemoryCommunicator(std::unique_ptr<Communicator> host,
                        std::unique_ptr<Communicator> device,
                        std::function<bool(const void*)> is_on_device)
      : host_(std::move(host)),
        device_(std::move(device)),
        is_on_device_(std::move(is_on_device)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status AllToAllv(const void* send, absl::Span<const int64_t> send_bytes,
                         void* recv,
                         absl::Span<const int64_t> recv_bytes) override {
    return OfExchange(send, recv).AllToAllv(send, send_bytes, recv, recv_bytes);
  }
  absl::Status AllGatherv(const void* send, void* recv,
                          absl::Span<const int64_t> recv_bytes) override {
    // All ranks receive the same.
    return Of(recv, Total(recv_bytes)).AllGatherv(send, recv, recv_bytes);
  }
  absl::Status AllReduceSum(absl::Span<float> values) override {
    return Of(values.data(), values.size()).AllReduceSum(values);
  }
  absl::Status AllReduceSum(absl::Span<double> values) override {
    return Of(values.data(), values.size()).AllReduceSum(values);
  }
  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    return Of(values.data(), values.size()).AllReduceSum(values);
  }
  absl::Status AllReduceMin(absl::Span<int64_t> values) override {
    return Of(values.data(), values.size()).AllReduceMin(values);
  }
  absl::Status ReduceScatterSum(absl::Span<const float> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<float> recv) override {
    return Of(send.data(), send.size()).ReduceScatterSum(send, counts, recv);
  }
  absl::Status ReduceScatterSum(absl::Span<const double> send,
                                absl::Span<const int64_t> counts,
                                absl::Span<double> recv) override {
    return Of(send.data(), send.size()).ReduceScatterSum(send, counts, recv);
  }
  absl::Status Broadcast(void* data, int64_t bytes, int root) override {
    return Of(data, bytes).Broadcast(data, bytes, root);
  }
  absl::Status Send(const void* data, int64_t bytes, int peer) override {
    return Of(data, bytes).Send(data, bytes, peer);
  }
  absl::Status Recv(void* data, int64_t bytes, int peer) override {
    return Of(data, bytes).Recv(data, bytes, peer);
  }
  absl::Status Barrier() override { return host_->Barrier(); }
  void Abort(absl::string_view why) override {
    host_->Abort(why);
    device_->Abort(why);
  }
  int64_t collective_cpu_ns() const override {
    return host_->collective_cpu_ns() + device_->collective_cpu_ns();
  }
  int64_t collective_ns() const override {
    return host_->collective_ns() + device_->collective_ns();
  }

 private:
  static int64_t Total(absl::Span<const int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
  // `size` is the same on all ranks: if it is nothing, all go to the host.
  Communicator& Of(const void* data, int64_t size) const {
    return size > 0 && is_on_device_(data) ? *device_ : *host_;
  }
  // One rank alone may have nothing to send, or nothing to receive, or neither;
  // then its peers' memory decides, and it cannot see it.
  Communicator& OfExchange(const void* send, const void* recv) const {
    const void* const either = send != nullptr ? send : recv;
    return is_on_device_(either) ? *device_ : *host_;
  }

  const std::unique_ptr<Communicator> host_;
  const std::unique_ptr<Communicator> device_;
  const std::function<bool(const void*)> is_on_device_;
};

class TwoMemoryFactory : public CommunicatorFactory {
 public:
  explicit TwoMemoryFactory(TwoMemoryParts parts) : parts_(std::move(parts)) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(
        auto host,
        parts_.host->Create(absl::StrCat(key, "/host"), block, world_rank));
    EVENSTEP_ASSIGN_OR_RETURN(
        auto device,
        parts_.device->Create(absl::StrCat(key, "/device"), block, world_rank));
    return std::make_unique<TwoMemoryCommunicator>(
        std::move(host), std::move(device), parts_.is_on_device);
  }
  void SetTimeout(absl::Duration timeout) override {
    parts_.host->SetTimeout(timeout);
    parts_.device->SetTimeout(timeout);
  }

 private:
  const TwoMemoryParts parts_;
};

}  // namespace

std::unique_ptr<CommunicatorFactory> MakeTwoMemoryFactory(
    TwoMemoryParts parts) {
  return std::make_unique<TwoMemoryFactory>(std::move(parts));
}

}  // namespace evenstep::trainer
