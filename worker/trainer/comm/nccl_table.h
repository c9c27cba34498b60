#ifndef EVENSTEP_WORKER_TRAINER_COMM_NCCL_TABLE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_NCCL_TABLE_H_

// The functions of NCCL and of its device that nccl_communicator.cc calls, as a
// table: worker/trainer/cuda fills it from nccl.h, testing/fake_nccl.h from
// threads and host memory. So the state machine around NCCL (slow set-up,
// asynchronous errors, aborts that hang) is built and tested without a GPU.
// Values of the enumerations are NCCL's own.
//
// Meaning and thread-safety of each function are those of the NCCL function it
// names. Communicators are never blocking: a call that gives kInProgress goes
// on, and CommAsyncError says when it is over.

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace evenstep::trainer {

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum class NcclType : int {
  kUint8 = 1,
  kInt64 = 4,
  kFloat32 = 7,
  kFloat64 = 8
};
enum class NcclOp : int { kSum = 0, kMin = 3 };
enum class StreamState { kDone, kPending, kFailed };

struct NcclId {
  std::array<char, 128> bytes{};
};
using NcclComm = void*;
using DeviceStream = void*;

// Where a collective is enqueued.
struct NcclPlace {
  NcclComm comm = nullptr;
  DeviceStream stream = nullptr;
};

class NcclTable {
 public:
  virtual ~NcclTable() = default;

  virtual NcclResult GetUniqueId(NcclId* id) = 0;
  // ncclCommInitRankConfig with blocking = 0.
  virtual NcclResult CommInit(NcclComm* comm, int size, const NcclId& id,
                              int rank) = 0;
  virtual NcclResult CommAsyncError(NcclComm comm, NcclResult* state) = 0;
  virtual NcclResult CommFinalize(NcclComm comm) = 0;
  virtual NcclResult CommDestroy(NcclComm comm) = 0;
  virtual NcclResult CommAbort(NcclComm comm) = 0;

  virtual NcclResult GroupStart() = 0;
  virtual NcclResult GroupEnd() = 0;
  virtual NcclResult AllReduce(const void* send, void* recv, int64_t count,
                               NcclType type, NcclOp op,
                               const NcclPlace& place) = 0;
  virtual NcclResult Reduce(const void* send, void* recv, int64_t count,
                            NcclType type, int root,
                            const NcclPlace& place) = 0;  // sum
  virtual NcclResult Broadcast(void* data, int64_t bytes, int root,
                               const NcclPlace& place) = 0;
  virtual NcclResult Send(const void* data, int64_t bytes, int peer,
                          const NcclPlace& place) = 0;
  virtual NcclResult Recv(void* data, int64_t bytes, int peer,
                          const NcclPlace& place) = 0;

  // ncclGetErrorString and, where there is one, ncclGetLastError.
  virtual std::string ErrorText(NcclResult result, NcclComm comm) = 0;

  virtual StreamState QueryStream(DeviceStream stream) = 0;
  // Zeroed device memory. RESOURCE_EXHAUSTED: there is not as much.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_NCCL_TABLE_H_
