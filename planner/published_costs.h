#ifndef EVENSTEP_PLANNER_PUBLISHED_COSTS_H_
#define EVENSTEP_PLANNER_PUBLISHED_COSTS_H_

// Cost constants that others published, for tests and comparisons. Never used
// for a real job unless it asks for them by name. Stateless.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/request.h"

namespace evenstep::planner {

struct PublishedCosts {
  absl::string_view name;
  absl::string_view source;
  ModelShape model;
  TimeModel time;
};

// flexsp-7b-a100. NOT_FOUND names the known ones.
absl::StatusOr<PublishedCosts> FindPublishedCosts(absl::string_view name);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PUBLISHED_COSTS_H_
