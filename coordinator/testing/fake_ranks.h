#ifndef EVENSTEP_COORDINATOR_TESTING_FAKE_RANKS_H_
#define EVENSTEP_COORDINATOR_TESTING_FAKE_RANKS_H_

// What an agent with well-behaved trainers would send, and a job for them: for
// tests of the coordinator. Pure functions.

#include <cstdint>
#include <string>

#include "evenstep/v1/agent.pb.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator::testing {

inline constexpr int kBatchSamples = 4;

// A job that fits two ranks of 64 tokens.
v1::SubmitRequest SmallJob(const std::string& job_id, int ranks, int64_t steps);

// The work folder is the node's own.
v1::AgentMessage Hello(const std::string& node, const std::string& incarnation,
                       int slots);
v1::AgentMessage Ready(const v1::AttemptId& id);
v1::AgentMessage Data(const v1::AttemptId& id, int rank);
v1::AgentMessage Costs(const v1::AttemptId& id);
v1::AgentMessage Lengths(const v1::AttemptId& id, int rank, int world,
                         int64_t step);
v1::AgentMessage Started(const v1::AttemptId& id, int rank);
// Times of the rank's micro-batches in `plan`; one plan held beyond the step.
v1::AgentMessage Step(const v1::AttemptId& id, int rank,
                      const v1::StepPlan& plan);
// Fills in what the rank computed: by the costs of Costs, times `slowness`.
void TimeComputing(const v1::StepPlan& plan, double slowness,
                   v1::StepReport* report);
v1::AgentMessage Log(const v1::AttemptId& id, int rank,
                     const std::string& text);
v1::AgentMessage CleanExit(const v1::AttemptId& id, int rank, int64_t steps);
v1::AgentMessage Killed(const v1::AttemptId& id, int rank, int signal);
v1::AgentMessage CollectiveFailed(const v1::AttemptId& id, int rank);
v1::AgentMessage AgentStopping(const v1::AttemptId& id);
v1::AgentMessage Ended(const v1::AttemptId& id);

}  // namespace evenstep::coordinator::testing

#endif  // EVENSTEP_COORDINATOR_TESTING_FAKE_RANKS_H_
