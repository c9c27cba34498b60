// `even`: the fastest of its candidates for exactly these samples.

#include <optional>
#include <utility>
#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

absl::StatusOr<std::vector<Placement>> PlaceEven(const PolicyInput& input) {
  std::vector<Placement> best;
  std::optional<int64_t> best_ns;
  absl::Status refusal;
  for (const PolicyRow& row : Policies()) {
    if (row.policy == Policy::kEven) continue;
    auto placements = row.place(input);
    if (!placements.ok()) {
      refusal = placements.status();
      continue;
    }
    const int64_t step_ns =
        PredictStepNs(input.request, input.costs, *placements);
    if (best_ns.has_value() && *best_ns <= step_ns) continue;
    best_ns = step_ns;
    best = *std::move(placements);
  }
  if (!best_ns.has_value()) return refusal;
  return best;
}

}  // namespace evenstep::planner
