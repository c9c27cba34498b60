#ifndef EVENSTEP_WORKER_TRAINER_COMM_COLLECTIVE_KIND_H_
#define EVENSTEP_WORKER_TRAINER_COMM_COLLECTIVE_KIND_H_

// The collectives by name: what ranks compare, what logs say. Plain values.

#include "absl/strings/string_view.h"

namespace evenstep::trainer {

enum class CollectiveKind {
  kAllToAll,
  kAllGather,
  kAllReduce,
  kAllReduceShares,  // the first of the two rounds of a large all-reduce
  kReduceScatter,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
};

// "all-to-all" and so on.
absl::string_view CollectiveName(CollectiveKind kind);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_COLLECTIVE_KIND_H_
