#include "planner/policies.h"

namespace evenstep::planner {

absl::Span<const PolicyRow> Policies() {
  static constexpr PolicyRow kRows[] = {
      {Policy::kStatic, "static", PlaceStatic},
      {Policy::kBalanced, "balanced", PlaceBalanced},
      {Policy::kPacked, "packed", PlacePacked},
      {Policy::kEven, "even", PlaceEven},
  };
  return kRows;
}

}  // namespace evenstep::planner
