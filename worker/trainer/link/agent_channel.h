#ifndef EVENSTEP_WORKER_TRAINER_LINK_AGENT_CHANNEL_H_
#define EVENSTEP_WORKER_TRAINER_LINK_AGENT_CHANNEL_H_

// What the step loop asks of the agent. AgentLink is the real one, over a
// socket; tests plan in memory. Thread-safe.

#include "absl/status/status.h"
#include "evenstep/trainer/v1/trainer.pb.h"

namespace evenstep::trainer {

class AgentChannel {
 public:
  virtual ~AgentChannel() = default;
  // UNAVAILABLE: the agent is gone.
  virtual absl::Status Send(const v1::ToAgent& message) = 0;
  // Whether the agent has asked to stop at the next gate; never taken back.
  virtual bool StopRequested() const = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_AGENT_CHANNEL_H_
