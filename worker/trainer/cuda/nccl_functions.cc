#include "worker/trainer/cuda/nccl_functions.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace evenstep::trainer {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(static_cast<int>(NcclResult::kSuccess) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::kUnhandledCudaError) ==
              ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::kSystemError) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::kInternalError) ==
              ncclInternalError);
static_assert(static_cast<int>(NcclResult::kInvalidArgument) ==
              ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);
static_assert(static_cast<int>(NcclType::kUint8) == ncclUint8);
static_assert(static_cast<int>(NcclType::kInt64) == ncclInt64);
static_assert(static_cast<int>(NcclType::kFloat32) == ncclFloat32);
static_assert(static_cast<int>(NcclType::kFloat64) == ncclFloat64);
static_assert(static_cast<int>(NcclOp::kSum) == ncclSum);
static_assert(static_cast<int>(NcclOp::kMin) == ncclMin);

NcclResult Result(ncclResult_t result) {
  return static_cast<NcclResult>(result);
}
ncclComm_t Comm(NcclComm comm) { return static_cast<ncclComm_t>(comm); }
ncclDataType_t Type(NcclType type) { return static_cast<ncclDataType_t>(type); }
cudaStream_t Stream(DeviceStream stream) {
  return static_cast<cudaStream_t>(stream);
}

class NcclFunctions : public NcclTable {
 public:
  NcclResult GetUniqueId(NcclId* id) override {
    ncclUniqueId unique;
    const ncclResult_t result = ncclGetUniqueId(&unique);
    std::memcpy(id->bytes.data(), &unique, sizeof(unique));
    return Result(result);
  }
  NcclResult CommInit(NcclComm* comm, int size, const NcclId& id,
                      int rank) override {
    ncclUniqueId unique;
    std::memcpy(&unique, id.bytes.data(), sizeof(unique));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    const ncclResult_t result =
        ncclCommInitRankConfig(&made, size, unique, rank, &config);
    *comm = made;
    return Result(result);
  }
  NcclResult CommAsyncError(NcclComm comm, NcclResult* state) override {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(Comm(comm), &now);
    *state = Result(now);
    return Result(result);
  }
  NcclResult CommFinalize(NcclComm comm) override {
    return Result(ncclCommFinalize(Comm(comm)));
  }
  NcclResult CommDestroy(NcclComm comm) override {
    return Result(ncclCommDestroy(Comm(comm)));
  }
  NcclResult CommAbort(NcclComm comm) override {
    return Result(ncclCommAbort(Comm(comm)));
  }

  NcclResult GroupStart() override { return Result(ncclGroupStart()); }
  NcclResult GroupEnd() override { return Result(ncclGroupEnd()); }
  NcclResult AllReduce(const void* send, void* recv, int64_t count,
                       NcclType type, NcclOp op,
                       const NcclPlace& place) override {
    return Result(ncclAllReduce(send, recv, count, Type(type),
                                static_cast<ncclRedOp_t>(op), Comm(place.comm),
                                Stream(place.stream)));
  }
  NcclResult Reduce(const void* send, void* recv, int64_t count, NcclType type,
                    int root, const NcclPlace& place) override {
    return Result(ncclReduce(send, recv, count, Type(type), ncclSum, root,
                             Comm(place.comm), Stream(place.stream)));
  }
  NcclResult Broadcast(void* data, int64_t bytes, int root,
                       const NcclPlace& place) override {
    return Result(ncclBroadcast(data, data, bytes, ncclUint8, root,
                                Comm(place.comm), Stream(place.stream)));
  }
  NcclResult Send(const void* data, int64_t bytes, int peer,
                  const NcclPlace& place) override {
    return Result(ncclSend(data, bytes, ncclUint8, peer, Comm(place.comm),
                           Stream(place.stream)));
  }
  NcclResult Recv(void* data, int64_t bytes, int peer,
                  const NcclPlace& place) override {
    return Result(ncclRecv(data, bytes, ncclUint8, peer, Comm(place.comm),
                           Stream(place.stream)));
  }

  std::string ErrorText(NcclResult result, NcclComm comm) override {
    const std::string text =
        ncclGetErrorString(static_cast<ncclResult_t>(result));
    const char* last = comm == nullptr ? "" : ncclGetLastError(Comm(comm));
    if (last == nullptr || *last == '\0') return text;
    return absl::StrCat(text, " (", last, ")");
  }

  StreamState QueryStream(DeviceStream stream) override {
    switch (cudaStreamQuery(Stream(stream))) {
      case cudaSuccess:
        return StreamState::kDone;
      case cudaErrorNotReady:
        return StreamState::kPending;
      default:
        return StreamState::kFailed;
    }
  }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* memory = nullptr;
    cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaSuccess) error = cudaMemset(memory, 0, bytes);
    // It runs on another stream than NCCL's.
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return memory;
    if (memory != nullptr) cudaFree(memory);
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes,
        " bytes of device memory for NCCL: ", cudaGetErrorString(error)));
  }
  void Free(void* memory) override { cudaFree(memory); }
};

}  // namespace

std::unique_ptr<NcclTable> MakeNcclFunctions() {
  return std::make_unique<NcclFunctions>();
}

bool IsOnDevice(const void* memory) {
  if (memory == nullptr) return true;  // of an empty tensor
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();  // not sticky: it is only unknown memory
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice;
}

}  // namespace evenstep::trainer
