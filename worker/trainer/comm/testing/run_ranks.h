#ifndef EVENSTEP_WORKER_TRAINER_COMM_TESTING_RUN_RANKS_H_
#define EVENSTEP_WORKER_TRAINER_COMM_TESTING_RUN_RANKS_H_

// Ranks as threads of a test.

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace evenstep::trainer::testing {

// Runs `body` for each rank on a thread of its own; the statuses by rank.
inline std::vector<absl::Status> RunRanks(
    int world, const std::function<absl::Status(int rank)>& body) {
  std::vector<absl::Status> statuses(world);
  std::vector<std::thread> threads;
  threads.reserve(world);
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_COMM_TESTING_RUN_RANKS_H_
