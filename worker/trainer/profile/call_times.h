#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_CALL_TIMES_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_CALL_TIMES_H_

// How long every single collective of a rank took, in the order of the calls.
// A rank that lost its core, or came late, makes one call of a micro-batch
// long; its sum over the micro-batch hides which. Used by the profile, on the
// thread of the rank.
//
//   std::vector<double> call_ns;
//   auto factory = MakeCallTimesFactory(std::move(gloo), &call_ns);

#include <memory>
#include <vector>

#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

// Groups that append the time of each of their calls, by their collective_ns,
// to `call_ns`, which outlives factory and groups; their owner may clear it
// between calls.
std::unique_ptr<CommunicatorFactory> MakeCallTimesFactory(
    std::unique_ptr<CommunicatorFactory> inner, std::vector<double>* call_ns);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_CALL_TIMES_H_
