#ifndef EVENSTEP_WORKER_TRAINER_LOOP_TESTING_FAKE_AGENT_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_TESTING_FAKE_AGENT_H_

// An agent of a few lines for tests of the real trainer binary: starts one
// process per rank, speaks to each over a Unix socket, answers the rendezvous
// from memory, and lets a FakeCoordinator plan. Every process is gone when it
// is destroyed. The test's thread calls it; one reader thread per rank.

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "jobspec/job_spec.h"
#include "wire/frame.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/loop/testing/fake_coordinator.h"

namespace evenstep::trainer {

struct FakeAgentOptions {
  std::string trainer_binary;
  std::string folder;  // for socket and output
  jobspec::JobSpec spec;
  Layout layout;
  std::string fault;          // of EVENSTEP_TRAINER_FAULT
  std::string emulated_link;  // of EVENSTEP_TRAINER_EMULATED_LINK
};

class FakeAgent {
 public:
  explicit FakeAgent(FakeAgentOptions options);
  ~FakeAgent();

  // Starts all ranks and answers them; returns once all are told to start.
  void Start();
  // Exit code of a rank, or -signal. Waits for it.
  int Wait(int rank);
  void Send(int rank, const v1::ToTrainer& message);
  // Closes the socket of a rank, as if the agent had died.
  void HangUp(int rank);
  pid_t pid(int rank) const { return pids_[rank]; }

  FakeCoordinator& coordinator() { return coordinator_; }

 private:
  void Spawn(int rank);
  void Greet();
  void ReadLoop(int rank);
  void AnswerGet(int rank, const v1::RendezvousGet& get);

  const FakeAgentOptions options_;
  const int world_;
  const std::string socket_path_;
  UniqueFd listener_;
  MemoryRendezvousStore store_;
  std::vector<pid_t> pids_;
  std::vector<std::unique_ptr<wire::FrameSocket>> sockets_;
  FakeCoordinator coordinator_;
  std::vector<std::thread> readers_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_TESTING_FAKE_AGENT_H_
