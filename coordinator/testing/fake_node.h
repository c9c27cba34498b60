#ifndef EVENSTEP_COORDINATOR_TESTING_FAKE_NODE_H_
#define EVENSTEP_COORDINATOR_TESTING_FAKE_NODE_H_

// An agent over a real stream whose trainers are fake: it answers an assignment
// with data, costs and lengths, and a plan with a step. Everything it sends can
// be changed on the way, so that a test can play a broken agent. Thread-safe.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "evenstep/v1/agent.grpc.pb.h"
#include "rpc/client_stream.h"

namespace evenstep::coordinator::testing {

class FakeNode {
 public:
  // What is sent in the place of a message; heartbeats excepted. One call at a
  // time.
  using Outgoing =
      std::function<std::vector<v1::AgentMessage>(const v1::AgentMessage&)>;

  FakeNode(const std::string& address, const std::string& name, int slots);
  // `hello` is its first message.
  FakeNode(const std::string& address, const v1::AgentMessage& hello,
           Outgoing outgoing);
  ~FakeNode();
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;

  void Send(const v1::AgentMessage& message) ABSL_LOCKS_EXCLUDED(send_mutex_);
  // Ranks do nothing more from this step on; -1: they run to the end. Steps
  // that are allowed now and whose plans are there run at once.
  void HoldAt(int64_t step) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the newest assignment.
  v1::AttemptId attempt() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: not in time.
  bool WaitFor(v1::CoordinatorMessage::WhatCase what)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsOver() const { return over_.HasBeenNotified(); }
  // All ranks of the node have run all steps of that attempt.
  bool HasFinished(const std::string& job_id, int attempt)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Stream =
      rpc::ClientBidiStream<v1::CoordinatorMessage, v1::AgentMessage>;

  struct Share {
    v1::Assignment assignment;
    std::map<int64_t, v1::StepPlan> plans;  // not run yet
    bool ended = false;
  };

  void SendHeartbeats();
  void On(const v1::CoordinatorMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  Share* Find(const v1::AttemptId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnBegin(const Share& share);
  void OnPlan(Share& share, const v1::StepPlan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSteps(Share& share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunStep(Share& share, const v1::StepPlan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendLengths(const Share& share, int64_t step);
  void End(Share& share, int64_t steps) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::unique_ptr<v1::AgentService::Stub> stub_;
  std::shared_ptr<Stream> stream_;
  const Outgoing outgoing_;
  absl::Notification leaving_;
  absl::Notification over_;
  absl::Mutex send_mutex_;
  absl::Mutex mutex_;  // before send_mutex_
  int64_t hold_at_ ABSL_GUARDED_BY(mutex_) = -1;
  v1::AttemptId newest_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Share> shares_ ABSL_GUARDED_BY(mutex_);  // by job
  std::set<std::pair<std::string, int>> finished_ ABSL_GUARDED_BY(mutex_);
  std::set<v1::CoordinatorMessage::WhatCase> seen_ ABSL_GUARDED_BY(mutex_);
  std::thread heartbeats_;
};

}  // namespace evenstep::coordinator::testing

#endif  // EVENSTEP_COORDINATOR_TESTING_FAKE_NODE_H_
