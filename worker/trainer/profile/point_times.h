#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_POINT_TIMES_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_POINT_TIMES_H_

// From what the ranks saw of a profile's point to what it takes. A rank that
// shares its core with other processes, or comes late, makes others wait in
// collectives: that is no cost of the exchange. So of every single collective
// the least over ranks and repeats counts: who comes last waits for nobody, and
// one call of many repeats is left in peace. Computing is timed by CPU time, to
// which a neighbour adds less (by the caches that they share): of a rank the
// lower quartile over its repeats counts, which unlike the least does not fall
// with their number, and of the ranks the slowest. Pure.

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace evenstep::trainer {

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

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_POINT_TIMES_H_
