#ifndef EVENSTEP_PLANNER_POLICY_NAMES_H_
#define EVENSTEP_PLANNER_POLICY_NAMES_H_

// The names of all policies, for those who list them: help texts. Pure.

#include <string>
#include <vector>

namespace evenstep::planner {

// As PolicyName gives them, in the order of the table of policies.
std::vector<std::string> PolicyNames();

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICY_NAMES_H_
