#ifndef EVENSTEP_COORDINATOR_SERVER_FOLLOWERS_H_
#define EVENSTEP_COORDINATOR_SERVER_FOLLOWERS_H_

// Those who watch jobs and follow logs. Each has a cursor and is fed from the
// store, page by page, as far as its stream has room: a slow reader costs no
// memory, and what is shown is stored. So a cursor given back after a lost
// connection, or after the coordinator's restart, goes on without loss or
// repeats. Single owner: the event loop's thread.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "coordinator/server/job_registry.h"
#include "coordinator/store/job_store.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator {

// The writing end of a server stream. Calls never block.
template <typename Message>
class FollowSink {
 public:
  virtual ~FollowSink() = default;
  virtual bool HasRoom() const = 0;
  virtual void Send(Message message) = 0;
  virtual void Finish(const absl::Status& status) = 0;
};
using WatchSink = FollowSink<v1::WatchResponse>;
using LogSink = FollowSink<v1::LogsResponse>;

class Followers {
 public:
  // Both outlive the followers.
  Followers(JobRegistry& book, JobStore& store) : book_(book), store_(store) {}

  // Sends what is there. NOT_FOUND comes through the sink. The number names the
  // follower from then on.
  int64_t Watch(const v1::WatchRequest& request,
                std::shared_ptr<WatchSink> sink);
  int64_t FollowLog(const v1::LogsRequest& request,
                    std::shared_ptr<LogSink> sink);
  // The stream has room again.
  void Pump(int64_t follower);
  // The stream is over.
  void Remove(int64_t follower);
  // The job has news in the store.
  void PumpJob(const std::string& job_id);
  void FinishAll(const absl::Status& status);

 private:
  struct Watcher {
    std::string job_id;
    int64_t after_sequence = 0;
    int64_t after_step = -1;
    int32_t attempt = 0;
    std::shared_ptr<WatchSink> sink;
  };
  struct LogFollower {
    std::string job_id;
    int64_t after_sequence = 0;
    bool follow = false;
    std::shared_ptr<LogSink> sink;
  };
  enum class Progress { kMore, kWaits, kEnded };

  // The job is over and all of it is stored.
  bool IsOver(const std::string& job_id);
  bool EndsSteps(const Watcher& watcher, const v1::JobEvent& event);
  Progress PumpOnce(Watcher& watcher);
  Progress SendSteps(Watcher& watcher);
  Progress PumpOnce(LogFollower& follower);
  void Forget(const std::string& job_id, int64_t follower);
  template <typename Follower>
  Progress PumpWhileRoom(Follower& follower);

  JobRegistry& book_;
  JobStore& store_;
  int64_t next_ = 1;
  std::map<int64_t, Watcher> watchers_;
  std::map<int64_t, LogFollower> log_followers_;
  std::map<std::string, std::set<int64_t>> of_job_;  // both kinds
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_FOLLOWERS_H_
