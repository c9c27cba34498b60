#ifndef EVENSTEP_WORKER_TRAINER_COMM_EMULATED_LINK_H_
#define EVENSTEP_WORKER_TRAINER_COMM_EMULATED_LINK_H_

// Emulation, for benchmarks only: makes a fast link (loopback) look like two
// levels of slower ones, inside a node and across nodes, by waiting after every
// collective. What the real exchange took comes on top. It is always said: the
// log of every rank does, and the rank says it with its start, so that the job,
// its description and its summary do (Job.emulated_link).
//
// A collective takes, on each rank, rounds * latency plus the larger of its
// bytes sent and received at a level, over that level's bandwidth; of both
// levels the slower one counts, since their links are apart. All-reduce has two
// rounds and moves 2 (P - 1) / P of its buffer, as here and in NCCL's rings.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

inline constexpr char kEmulatedLinkVariable[] =
    "EVENSTEP_TRAINER_EMULATED_LINK";

struct LinkLevel {
  absl::Duration latency = absl::ZeroDuration();
  double gigabytes_per_second = 0;  // of 1e9 bytes, each way; 0: no cost
};

struct EmulatedLink {
  int ranks_per_node = 1;  // rank r stands on node r / ranks_per_node
  LinkLevel inside;
  LinkLevel across;
};

// "ranks_per_node=2,inside_latency=5us,inside_gigabytes_per_second=200,
// across_latency=20us,across_gigabytes_per_second=25" (one line; a level that
// is left out costs nothing). INVALID_ARGUMENT names the variable and the part.
absl::StatusOr<EmulatedLink> ParseEmulatedLink(absl::string_view text);
// Says that it is emulated, with the numbers.
std::string DescribeEmulatedLink(const EmulatedLink& link);

// What `call` costs on the rank at `place` of a group that begins at world rank
// `first_rank`. Pure.
struct EmulatedPlace {
  int first_rank = 0;
  int rank = 0;
  int size = 1;
};
absl::Duration EmulatedTime(const EmulatedLink& link, const Collective& call,
                            const EmulatedPlace& place);

// Groups with the link's costs, which count as time in collectives. `sleep`
// waits (absl::SleepFor outside tests). Logs a warning that it is active.
std::unique_ptr<CommunicatorFactory> MakeEmulatedLinkFactory(
    std::unique_ptr<CommunicatorFactory> inner, const EmulatedLink& link,
    std::function<void(absl::Duration)> sleep);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_EMULATED_LINK_H_
