#ifndef EVENSTEP_WORKER_AGENT_ATTEMPT_H_
#define EVENSTEP_WORKER_AGENT_ATTEMPT_H_

// One attempt of one job on this node: its trainers, their socket and their
// messages, from the assignment until every process is gone. Lives on the
// agent's loop. What trainers say goes up with the attempt's id, what the
// coordinator says goes down to all of them; what belongs to another generation
// is dropped and counted.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "evenstep/v1/agent.pb.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/output_reader.h"
#include "worker/agent/process.h"
#include "worker/agent/rendezvous_client.h"
#include "worker/agent/trainer.h"
#include "worker/agent/trainer_listener.h"

namespace evenstep::agent {

// From the order to end an attempt to SIGKILL at the latest, so that it is gone
// within ten seconds.
inline constexpr absl::Duration kLongestStop = absl::Seconds(8);
// A trainer that writes weights may take longer, as long as bytes reach the
// disk.
inline constexpr absl::Duration kLongestKeep = absl::Minutes(10);

// What an attempt uses of its agent; all of it outlives the attempt.
struct AttemptContext {
  EventLoop& loop;
  const AgentOptions& options;
  AgentMetrics& metrics;
  ProcessLedger& ledger;
  RendezvousClient& rendezvous;
  // As CoordinatorLink::Send.
  std::function<absl::Status(v1::AgentMessage)> send;
  // Trainers that hear nothing for so long end themselves.
  absl::Duration agent_silence;
  // Every process is gone and AttemptEnded was sent: the attempt may be
  // destroyed, but not inside this call.
  std::function<void()> on_gone;
};

class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  // An attempt that waits for Start. `assignment` has been checked.
  Attempt(AttemptContext context, v1::Assignment assignment);
  ~Attempt();

  // Makes folders and the socket and starts the trainers. After an error the
  // attempt has told the coordinator and is ending.
  void Start(const std::string& socket_path);

  const v1::AttemptId& id() const { return assignment_.attempt(); }
  int num_ranks() const { return assignment_.num_ranks(); }

  // From the coordinator.
  void OnPlan(const v1::StepPlan& plan);
  void OnStop(const std::string& message);
  void OnAbandon(const v1::Abandon& abandon);

  // Asks the trainers to end, rank `weights_rank` with the weights of its last
  // whole step. Those that are there after the job's stop time-out are killed,
  // but for one that writes weights; all are after `at_most`. A further call
  // does nothing but set an earlier end.
  void End(const std::string& message, absl::Duration at_most,
           int weights_rank = 0);
  void Kill();

  // The coordinator is there: trainers may go on.
  void KeepAlive();

  // Tells the coordinator that the attempt cannot go on.
  void RequestAbandon(int rank, const std::string& reason,
                      const std::string& message, int64_t step = -1);

 private:
  struct RankState {
    std::unique_ptr<Trainer> trainer;
    bool finished = false;  // said so before it exited
    trainer::v1::Finished finish;
    std::string failure;   // what it said before it exited; empty: nothing
    bool refused = false;  // it has sent an invalid message, and is killed
    int num_calls = 0;     // of the rendezvous, not answered yet
    bool gone = false;
    // Of weights, as it has said last, and when.
    int64_t bytes_written = 0;
    absl::Duration wrote_at = -absl::InfiniteDuration();
  };

  absl::Status MakePlaces(const std::string& socket_path);
  absl::Status StartTrainer(int rank, const std::string& socket_path);
  trainer::v1::ToTrainer StartMessage(int rank) const;
  void SendToAll(const trainer::v1::ToTrainer& message);

  // To the coordinator. What cannot be sent ends the job.
  void Report(v1::AgentMessage message);
  void OnConnected(const TrainerConnection& connection);
  void OnFrame(int rank, const trainer::v1::ToAgent& frame);
  void OnFailure(int rank, const trainer::v1::Failure& failure);
  void RefuseTrainer(int rank, const absl::Status& why);
  void OnLines(int rank, const OutputLines& lines);
  // False: the trainer has too many calls under way, and is refused.
  bool MayCallRendezvous(int rank);
  void OnRendezvousSet(int rank, const trainer::v1::RendezvousSet& set);
  void OnWritingWeights(int rank, int64_t bytes);
  void OnRendezvousGet(int rank, const trainer::v1::RendezvousGet& get);
  void OnTrainerEnd(int rank, const TrainerEnd& end);
  void ReportExit(int rank, const RankState& state, const TrainerEnd& end);
  void GoneIfAllAre();
  bool IsWriting(const RankState& state) const;
  void KillIdle();
  void KillRank(int rank, const RankState& state);

  bool IsCurrent(int64_t generation);

  const AttemptContext context_;
  v1::Assignment assignment_;  // its generation follows Abandon
  std::string folder_;         // logs
  std::string output_dir_;
  LogBatcher logs_;
  int64_t next_line_ = 1;
  bool ending_ = false;
  bool report_refused_ = false;
  absl::Duration ending_since_;
  bool told_gone_ = false;
  std::map<int, RankState> ranks_;
  std::unique_ptr<TrainerListener> listener_;  // stops before trainers go
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_ATTEMPT_H_
