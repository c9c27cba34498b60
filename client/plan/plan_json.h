#ifndef EVENSTEP_CLIENT_PLAN_PLAN_JSON_H_
#define EVENSTEP_CLIENT_PLAN_PLAN_JSON_H_

// A comparison of policies as JSON: the contract of `evenstep plan -o json`
// (docs/plan.md). All but planning_seconds is the same for the same request.
// Pure functions.

#include <string>
#include <utility>
#include <vector>

#include "client/plan/plan_setup.h"
#include "client/plan/policy_runs.h"
#include "nlohmann/json.hpp"

namespace evenstep::plan {

using Json = nlohmann::ordered_json;

// What describes the request beyond its own numbers.
struct RequestNames {
  std::string lengths;  // where they come from
  std::string costs;
  std::string costs_source;
  // What was set beyond the samples, GPUs and costs, by the name of its flag:
  // {"micro-batch-fixed-ms", "20"}.
  std::vector<std::pair<std::string, std::string>> settings = {};
};

// "with --micro-batch-fixed-ms 20, --simulate-noise 0.02"; "" if there are
// none.
std::string DescribeSettings(const RequestNames& names);

Json ToJson(const Comparison& comparison, const RequestNames& names);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_PLAN_JSON_H_
