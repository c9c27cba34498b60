#ifndef EVENSTEP_WORKER_AGENT_TRAINER_FRAMES_H_
#define EVENSTEP_WORKER_AGENT_TRAINER_FRAMES_H_

// What a trainer may say on its socket, and what the agent makes of it for the
// coordinator. A trainer speaks for its own rank only, and every field has a
// bound; Attempt asks here before it does anything with a frame. A trainer that
// breaks a bound is broken: its frames are dropped, the attempt is abandoned
// with INVALID_REPORT and the trainer is killed. Pure functions.

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::agent {

// Rendezvous calls that one trainer may have under way.
inline constexpr int kMaxRendezvousCalls = 1024;

// INVALID_ARGUMENT: a second hello, a report of another rank, or a field out of
// bounds. `num_steps` of the job.
absl::Status CheckFrame(const trainer::v1::ToAgent& frame, int rank,
                        int64_t num_steps);

// The generation that the frame was made in; absent: it names none.
std::optional<int64_t> GenerationOf(const trainer::v1::ToAgent& frame);

// Of data, lengths, step, costs and started: the same from the rank of the
// attempt. Absent: the agent answers the frame itself.
std::optional<v1::AgentMessage> ForCoordinator(
    const trainer::v1::ToAgent& frame, const v1::AttemptId& id, int rank);

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_TRAINER_FRAMES_H_
