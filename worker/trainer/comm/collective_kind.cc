#include "worker/trainer/comm/collective_kind.h"

namespace evenstep::trainer {

absl::string_view CollectiveName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllToAll:
      return "all-to-all";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kAllReduceShares:
      return "all-reduce (first half)";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kSend:
      return "send";
    case CollectiveKind::kReceive:
      return "receive";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

}  // namespace evenstep::trainer
