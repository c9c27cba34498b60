#ifndef EVENSTEP_WORKER_TRAINER_COMM_TESTING_COMMUNICATOR_SUITE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_TESTING_COMMUNICATOR_SUITE_H_

// One test suite for every back end: communicator_suite.cc holds the cases, a
// back end's own test names itself and is linked with them.
//
//   INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorTest, ::testing::Values(kGloo));

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer::testing {

// What the ranks of one test share; outlives them all.
class SuiteFabric {
 public:
  virtual ~SuiteFabric() = default;
  // For one rank; called on its thread. Outlives the factory.
  virtual absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeFactory(
      int rank) = 0;
};

struct SuiteBackEnd {
  const char* name;
  std::unique_ptr<SuiteFabric> (*make_fabric)(absl::Duration timeout);
  // Whether ranks that disagree are told how; else they reach the time-out.
  bool names_disagreement = false;
};
inline void PrintTo(const SuiteBackEnd& back_end, std::ostream* out) {
  *out << back_end.name;
}

class CommunicatorTest : public ::testing::TestWithParam<SuiteBackEnd> {
 protected:
  using Body = std::function<absl::Status(Communicator& communicator)>;

  static void SetUpTestSuite();
  // Runs `body` on every rank of one group of `world` ranks.
  static std::vector<absl::Status> RunGroup(
      int world, const Body& body, absl::Duration timeout = absl::Seconds(20));
};

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_COMM_TESTING_COMMUNICATOR_SUITE_H_
