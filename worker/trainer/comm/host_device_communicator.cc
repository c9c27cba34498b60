#include "worker/trainer/comm/host_device_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

class HostDeviceCommunicator : public Communicator {
 public:
  HostDeviceCommunicator(std::unique_ptr<Communicator> host,
                         std::unique_ptr<Communicator> device,
                         std::function<bool(const void*)> is_on_device)
      : host_(std::move(host)),
        device_(std::move(device)),
        is_on_device_(std::move(is_on_device)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status Run(const Collective& call) override {
    return Of(call).Run(call);
  }
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
  Communicator& Of(const Collective& call) const {
    switch (call.kind) {
      case CollectiveKind::kBarrier:
        return *host_;
      case CollectiveKind::kAllToAll:
        // One rank alone may have nothing to send, or nothing to receive, or
        // neither; then its peers' memory decides, and it cannot see it.
        return OfMemory(call.send != nullptr ? call.send : call.recv);
      case CollectiveKind::kReduceScatter:
        // A rank's own share may be nothing, and its buffer null.
        if (call.Bytes() == 0) return *host_;
        return OfMemory(call.send);
      default:
        // A size that is the same on all ranks: if it is nothing, all go to
        // the host.
        if (call.Bytes() == 0) return *host_;
        return OfMemory(call.recv != nullptr ? call.recv : call.send);
    }
  }
  Communicator& OfMemory(const void* data) const {
    return is_on_device_(data) ? *device_ : *host_;
  }

  const std::unique_ptr<Communicator> host_;
  const std::unique_ptr<Communicator> device_;
  const std::function<bool(const void*)> is_on_device_;
};

class HostDeviceFactory : public CommunicatorFactory {
 public:
  explicit HostDeviceFactory(HostDeviceParts parts)
      : parts_(std::move(parts)) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(
        auto host,
        parts_.host->Create(absl::StrCat(key, "/host"), block, world_rank));
    EVENSTEP_ASSIGN_OR_RETURN(
        auto device,
        parts_.device->Create(absl::StrCat(key, "/device"), block, world_rank));
    return std::make_unique<HostDeviceCommunicator>(
        std::move(host), std::move(device), parts_.is_on_device);
  }
  void SetTimeout(absl::Duration timeout) override {
    parts_.host->SetTimeout(timeout);
    parts_.device->SetTimeout(timeout);
  }

 private:
  const HostDeviceParts parts_;
};

}  // namespace

std::unique_ptr<CommunicatorFactory> MakeHostDeviceFactory(
    HostDeviceParts parts) {
  return std::make_unique<HostDeviceFactory>(std::move(parts));
}

}  // namespace evenstep::trainer
