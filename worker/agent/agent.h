#ifndef EVENSTEP_WORKER_AGENT_AGENT_H_
#define EVENSTEP_WORKER_AGENT_AGENT_H_

// The worker daemon of one node: takes assignments from the coordinator, runs
// their trainers, and answers for every process it started. Used by
// `evenstep-worker` and, in one process with a coordinator, by `evenstep
// local`. Start and Stop belong to one thread; everything else happens on the
// agent's own loop. Never links torch.
//
// Work folder: `lock` (one agent per folder), `folder-id`, `processes` (living
// trainers, for the next agent), `sockets/N.sock` (one per attempt), and
// `attempts/JOB.ATTEMPT/rank-R.log` (what each trainer wrote; the newest
// hundred attempts). Results of a job go to OUTPUT_ROOT/JOB.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/attempt.h"
#include "worker/agent/coordinator_link.h"
#include "worker/agent/process.h"
#include "worker/agent/rendezvous_client.h"
#include "worker/agent/slow_checks.h"

namespace evenstep::agent {

class Agent {
 public:
  // Completes the options, ends what an earlier agent left behind, and begins
  // to connect. INVALID_ARGUMENT: a setting; FAILED_PRECONDITION: the work
  // folder is another agent's. `on_refused` is told, on the agent's loop, that
  // the coordinator does not take this agent and that there is nothing left to
  // do but to stop it.
  using OnRefused = std::function<void(const absl::Status&)>;
  static absl::StatusOr<std::unique_ptr<Agent>> Start(
      AgentOptions options, OnRefused on_refused = nullptr);
  ~Agent();  // Stop without grace
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Tells the coordinator, ends the trainers, kills those that are left when
  // `grace` is nearly over, and leaves. Further calls do nothing.
  void Stop(absl::Duration grace);

  // "HOST:PORT" of the metrics; empty: none.
  const std::string& metrics_address() const { return metrics_address_; }
  const AgentOptions& options() const { return options_; }

 private:
  using AttemptKey = std::pair<std::string, int>;  // job, attempt

  Agent(AgentOptions options, ProcessLedger ledger,
        std::unique_ptr<AgentMetrics> metrics, std::string metrics_address,
        OnRefused on_refused);

  v1::AgentHello Hello() const;
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnAssignment(const v1::Assignment& assignment);
  void OnChecked(const AttemptKey& key, int64_t number, absl::Status allowed);
  void OnBegin(const v1::AttemptId& id);
  absl::Status CheckRoom(const v1::Assignment& assignment) const;
  void Refuse(const v1::AttemptId& id, const absl::Status& why);
  void OnEnd(const v1::AttemptId& id, const std::string& message,
             int weights_rank = 0);
  void ConfirmGone(const v1::AttemptId& id);
  void OnGone(const AttemptKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndAll(const std::string& reason, const std::string& message,
              absl::Duration at_most);
  // Null, and counted, when there is none.
  Attempt* Find(const v1::AttemptId& id);
  AttemptContext ContextFor(const v1::AttemptId& id);
  void AwaitNoAttempts(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  const AgentOptions options_;
  const std::string incarnation_;
  std::string folder_id_;  // set once, before the loop looks
  const std::string metrics_address_;
  const OnRefused on_refused_;
  std::unique_ptr<AgentMetrics> metrics_;
  ProcessLedger ledger_;
  EventLoop loop_{"agent-loop"};  // stopped before anything below is destroyed
  RendezvousClient rendezvous_;
  CoordinatorLink link_;
  SlowChecks checks_{&loop_};  // of data, whose file system may hang
  std::map<AttemptKey, std::shared_ptr<Attempt>> attempts_;  // on the loop
  // Assignments that are being looked at. As reserved_.
  struct Check {
    v1::Assignment assignment;
    int64_t number = 0;
    bool begin = false;  // the word to begin has come
  };
  std::map<AttemptKey, Check> checking_;  // on the loop
  int64_t next_check_ = 1;                // on the loop
  // Taken and not begun: forgotten when the stream ends. On the loop.
  std::map<AttemptKey, v1::Assignment> reserved_;
  std::deque<AttemptKey> ended_;  // the newest; on the loop
  int next_socket_ = 1;           // on the loop
  bool stopping_ = false;         // on the loop
  bool stopped_ = false;
  absl::Mutex mutex_;
  SteadyCondition none_left_;                     // num_attempts_ has become 0
  int num_attempts_ ABSL_GUARDED_BY(mutex_) = 0;  // of attempts_, for Stop
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_AGENT_H_
