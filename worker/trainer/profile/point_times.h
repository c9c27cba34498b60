#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_POINT_TIMES_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_POINT_TIMES_H_

// How often and when a profile's point is timed, and from what the ranks saw of
// it to what it takes. A rank that shares its core with other processes, or
// comes late, makes others wait in collectives: that is not a cost of the
// exchange. So of every single collective the least over ranks and repeats
// counts: who comes last waits for nobody, and one call of many repeats is left
// in peace. Where counts are unequal, as of clips whose frames or patches the
// degree does not divide, it is the time of the rank that moves least, and
// what the others move beyond it is not seen. Computing is timed by CPU time,
// to which a neighbour adds less (by the caches that they share): of a rank the
// lower quartile over its repeats counts, which unlike the least does not fall
// with their number, and of the ranks the slowest. Pure.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

// How often to time a point whose computing takes so long: `most` times on one
// rank, and eight times as often where ranks share it, because on a busy
// machine a call that is left in peace is rare. Long points are steady, and
// take as few repeats as fit into 1.5 s, at least one.
int64_t RepeatsOf(int64_t compute_ns, int degree, int most);

// Spreads a point's repeats evenly over rounds, of which there are as many at
// least: whether it is timed in this one, from 0.
bool IsTimedIn(int64_t round, int64_t rounds, int64_t repeats);

// Of one rank.
struct RankTimes {
  std::vector<double> compute_ns;  // one per repeat
  // Of the collectives of a micro-batch, in their order: the least over the
  // repeats.
  std::vector<double> call_ns;
};

// Adds one repeat. INTERNAL where it had other numbers of collectives.
absl::Status AddRepeat(double compute_ns, absl::Span<const double> call_ns,
                       RankTimes* times);

struct PointTime {
  double compute_ns = 0;
  double collective_ns = 0;
};

// Over all ranks, which have had as many repeats. INTERNAL where they had other
// numbers of collectives.
absl::StatusOr<PointTime> CombineTimes(const std::vector<RankTimes>& ranks);

// How long every single collective of a rank took, in the order of the calls.
// A rank that lost its core, or came late, makes one call of a micro-batch
// long; its sum over the micro-batch hides which. Used by the profile, on the
// thread of the rank.
//
//   std::vector<double> call_ns;
//   auto factory = MakeCallTimesFactory(std::move(gloo), &call_ns);

// Groups that append the time of each of their calls, by their collective_ns,
// to `call_ns`, which outlives factory and groups; their owner may clear it
// between calls.
std::unique_ptr<CommunicatorFactory> MakeCallTimesFactory(
    std::unique_ptr<CommunicatorFactory> inner, std::vector<double>* call_ns);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_POINT_TIMES_H_
