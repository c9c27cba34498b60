#ifndef EVENSTEP_WORKER_TRAINER_TESTING_RANKS_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_RANKS_H_

// Ranks as threads of a test, over either CPU back end.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer::testing {

enum class BackEnd { kInProcess, kGloo };

inline std::string BackEndName(BackEnd back_end) {
  return back_end == BackEnd::kGloo ? "Gloo" : "InProcess";
}

// One factory per rank; outlives all ranks.
class Fabric {
 public:
  explicit Fabric(BackEnd back_end, absl::Duration timeout = absl::Seconds(20))
      : back_end_(back_end), timeout_(timeout), hub_(timeout) {}

  absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory() {
    if (back_end_ == BackEnd::kInProcess) return hub_.MakeFactory();
    return MakeGlooFactory({"127.0.0.1", timeout_}, &store_);
  }

 private:
  const BackEnd back_end_;
  const absl::Duration timeout_;
  InProcessHub hub_;
  MemoryRendezvousStore store_;
};

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_RANKS_H_
