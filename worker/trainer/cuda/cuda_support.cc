#include "worker/trainer/cuda/cuda_support.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/trainer/comm/host_device_communicator.h"
#include "worker/trainer/comm/nccl_communicator.h"
#include "worker/trainer/cuda/nccl_functions.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

// Forward, backward (autograd follows the forward's stream) and NCCL share one
// stream, so that no collective runs beside another or before its inputs.
absl::StatusOr<c10::Device> StartDevice(int local_rank) {
  const int count = c10::cuda::device_count();
  if (local_rank >= count) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", local_rank, " of this node has no GPU: CUDA sees ", count));
  }
  const auto index = static_cast<c10::DeviceIndex>(local_rank);
  const absl::Status started =
      CatchTorch(absl::StrCat("GPU ", local_rank), [&] {
        c10::cuda::set_device(index);
        c10::cuda::setCurrentCUDAStream(
            c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index));
        return absl::OkStatus();
      });
  if (!started.ok()) return started;
  return c10::Device(c10::DeviceType::CUDA, index);
}

std::string NameOf(c10::Device device) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess) {
    return properties.name;
  }
  cudaGetLastError();  // not sticky
  return "unnamed";
}

absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeCudaFactory(
    DeviceSupport::GroupParts parts) {
  static NcclTable* const table = MakeNcclFunctions().release();
  NcclOptions options;
  options.timeout = parts.timeout;
  options.end_process = std::move(parts.end_process);
  options.stream = c10::cuda::getCurrentCUDAStream().stream();
  return MakeHostDeviceFactory(
      {.host = std::move(parts.host),
       .device = MakeNcclFactory(std::move(options), table, parts.store),
       .is_on_device = IsOnDevice});
}

}  // namespace

DeviceSupport MakeCudaSupport() {
  return {
      .start = StartDevice, .name = NameOf, .make_factory = MakeCudaFactory};
}

}  // namespace evenstep::trainer
