#ifndef EVENSTEP_EXAMPLES_SDK_SUBMIT_SUBMIT_AND_WAIT_H_
#define EVENSTEP_EXAMPLES_SDK_SUBMIT_SUBMIT_AND_WAIT_H_

// The whole use of the C++ SDK in one function: submit a job, print its loss as
// it trains, return the finished job. Takes the client as an argument, so that
// the test runs it with a FakeClient.

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "evenstep/client.h"

namespace evenstep::examples {

absl::StatusOr<client::Job> SubmitAndWait(client::Client& client,
                                          const std::string& job_yaml,
                                          std::ostream& out);

}  // namespace evenstep::examples

#endif  // EVENSTEP_EXAMPLES_SDK_SUBMIT_SUBMIT_AND_WAIT_H_
