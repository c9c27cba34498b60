#ifndef EVENSTEP_COORDINATOR_SERVER_COORDINATOR_H_
#define EVENSTEP_COORDINATOR_SERVER_COORDINATOR_H_

// The coordinator without its network: takes what users and agents say, and
// answers. Everything runs on one thread, the event loop's; nothing here locks.
// The services translate between gRPC and these calls; tests call them with a
// fake clock. Start reading here, then AttemptSupervisor.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/server/attempt_supervisor.h"
#include "coordinator/server/followers.h"
#include "coordinator/server/job_registry.h"
#include "coordinator/server/metrics.h"
#include "coordinator/server/node_table.h"
#include "coordinator/server/rendezvous.h"
#include "coordinator/store/job_store.h"
#include "evenstep/v1/agent.pb.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator {

struct CoordinatorOptions {
  std::string version = "unknown";
  absl::Duration heartbeat_interval = absl::Seconds(1);
  AttemptTimes times;
  // Steps and log lines reach the disk, and followers, so often.
  absl::Duration flush_interval = absl::Milliseconds(100);
  // Retention of finished jobs, by count and age; 0: unlimited. Age counts only
  // time that the monotonic clock confirms.
  int retained_jobs = 10000;
  absl::Duration retained_for = absl::Hours(30 * 24);
  // A finished job's series stay so long.
  absl::Duration metrics_retention = absl::Minutes(5);
};

// What the coordinator works with; all outlive it.
struct CoordinatorParts {
  JobStore& store;
  Metrics& metrics;
  const Clock& clock;
  WorkRunner& planners;
  std::function<void(std::function<void()>)> post;
  planner::PlannerFunctions planner;
};

class Coordinator {
 public:
  Coordinator(CoordinatorParts parts, const CoordinatorOptions& options);

  // Reads the store. Attempts from before are ended before anything new runs.
  absl::Status Start();

  // Errors as JobService documents them.
  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request);
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request);
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request);
  absl::StatusOr<v1::CancelResponse> Cancel(const v1::CancelRequest& request);
  Followers& followers() { return followers_; }
  const JobRegistry& book() const { return book_; }

  void OnAgentMessage(const std::shared_ptr<AgentLink>& link,
                      const v1::AgentMessage& message);
  void OnAgentGone(const AgentLink* link);
  void HandleRendezvous(const v1::RendezvousRequest& request,
                        Rendezvous::Answer answer);

  // Leases, time-outs, allocation, the disk. Several times a second.
  void Tick();
  // Ends streams and waits, admits nothing more. Jobs stay as they are.
  void Shutdown();

 private:
  absl::Duration Now() const { return parts_.clock.Monotonic(); }
  absl::StatusOr<v1::JobSpec> Normalise(const v1::SubmitRequest& request);
  void OnHello(const std::shared_ptr<AgentLink>& link,
               const v1::AgentHello& hello);
  void HandOver(Node& node, const v1::AgentMessage& message);
  void Schedule();
  bool StartOne();
  bool RefuseQueued(const std::string& job_id, const absl::Status& why);
  v1::Job Shown(const JobRecord& record) const;
  void Flush();
  void PumpFollowers();
  void ForgiveOwnSleep();
  absl::Time VerifiedNow() const;
  void ForgetOldJobs();
  void UpdateGauges();

  const CoordinatorParts parts_;
  const CoordinatorOptions options_;
  JobRegistry book_;
  NodeTable nodes_;
  Rendezvous rendezvous_;
  Followers followers_;
  AttemptSupervisor supervisor_;
  absl::Duration started_;
  absl::Time last_stamp_;             // the newest in the store at start
  std::vector<FreeNode> free_nodes_;  // when the queue was last looked at
  // After a restart nodes first get one lease to say what they still run.
  absl::Duration allocate_from_;
  absl::Duration last_tick_;
  absl::Duration next_flush_;
  absl::Duration next_gauges_;
  absl::Duration next_forgetting_;
  bool shutting_down_ = false;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_COORDINATOR_H_
