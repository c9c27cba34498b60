#ifndef EVENSTEP_PLANNER_TESTING_CORRUPTIONS_H_
#define EVENSTEP_PLANNER_TESTING_CORRUPTIONS_H_

// Every way in which a plan can be wrong, to plant in good plans: the checker
// has to catch each. Two kinds: a number or list is changed and nothing else
// (a flipped bit, a bug in the evaluation), or the placements are changed and
// all numbers and the digest made to agree (a bug in a policy). Stateless.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner::testing {

struct Corruption {
  std::string name;
  // Changes the plan; false if this plan offers no place for it.
  std::function<bool(const PlanRequest& request, Plan& plan)> apply;
};

const std::vector<Corruption>& AllCorruptions();

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_CORRUPTIONS_H_
