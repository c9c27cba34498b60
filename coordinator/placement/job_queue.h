#ifndef EVENSTEP_COORDINATOR_PLACEMENT_JOB_QUEUE_H_
#define EVENSTEP_COORDINATOR_PLACEMENT_JOB_QUEUE_H_

// The jobs that wait for slots, in order of arrival, and which of them is next.
// What a call looks at does not grow with the number of waiting jobs, but for
// the logarithm; num_visited counts it, for tests. Owned by JobRegistry; one
// thread.
//
// A waiting job holds up later ones, so that small jobs cannot starve a large
// one. A job that is larger than the whole cluster holds nobody up.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/placement/gang.h"

namespace evenstep::coordinator {

struct WaitingJob {
  int64_t arrival = 0;
  std::string job_id;
  int ranks = 0;

  friend bool operator==(const WaitingJob&, const WaitingJob&) = default;
};

class JobQueue {
 public:
  // A job that is there already stays as it is.
  void Add(const WaitingJob& job);
  // Nothing happens if it is not there.
  void Remove(const WaitingJob& job);

  size_t size() const { return arrivals_.size(); }
  // From 1; 0: it does not wait.
  int PositionOf(int64_t arrival) const;
  // The first job that a cluster of `slots` holds: it runs next. Null: none.
  // Valid until the queue changes.
  const WaitingJob* Next(int slots) const;

  int64_t num_visited() const { return num_visited_; }

 private:
  std::vector<int64_t> arrivals_;  // ascending
  // By ranks, then by arrival: there are few different numbers of ranks.
  std::map<int, std::map<int64_t, WaitingJob>> by_ranks_;
  mutable int64_t num_visited_ = 0;
};

// Why a job waits, for machines and for people.
struct PendingReason {
  std::string reason;   // NO_CAPACITY or BEHIND_PRIORITY
  std::string message;  // with the numbers and what would unblock it

  friend bool operator==(const PendingReason&, const PendingReason&) = default;
};

// Why a job in `queue` waits; empty for one that can start now.
PendingReason WhyWaiting(const WaitingJob& job, const JobQueue& queue,
                         const std::vector<FreeNode>& nodes);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLACEMENT_JOB_QUEUE_H_
