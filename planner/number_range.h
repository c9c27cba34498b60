#ifndef EVENSTEP_PLANNER_NUMBER_RANGE_H_
#define EVENSTEP_PLANNER_NUMBER_RANGE_H_

// One sentence for every number of a request that is out of its range. Used by
// validate.cc and validate_costs.cc. Pure.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace evenstep::planner {

template <typename Number>
absl::Status InRange(const std::string& field, Number value, Number low,
                     Number high) {
  // Written so that NaN is refused too.
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", value, "; it must be from ", low, " to ", high));
}

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_NUMBER_RANGE_H_
