#ifndef EVENSTEP_CLIENT_CLI_SHOW_TO_JSON_H_
#define EVENSTEP_CLIENT_CLI_SHOW_TO_JSON_H_

// The JSON forms of what the SDK returns: the contract of `-o json`, kept by
// golden files in testdata/. Keys have the names of the wire; times are RFC
// 3339 in UTC; what is absent is null. Pure functions.

#include <string>

#include "absl/strings/string_view.h"
#include "evenstep/job.h"
#include "nlohmann/json.hpp"
#include "planner/model.h"

namespace evenstep::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kJsonIndent = 2;

// `indent` of -1: one line. File names need not be UTF-8, JSON has to be: bad
// bytes become U+FFFD.
std::string DumpJson(const Json& json, int indent);

Json ToJson(const client::Job& job);
Json ToJson(const client::StepSummary& step);
Json ToJson(const client::JobEvent& event);
Json ToJson(const client::LogLine& line);
Json ToJson(const std::optional<client::Evaluation>& evaluation);
Json ToJson(const client::Totals& totals);
Json ToJson(const client::DataSummary& data);
// With the keys of a cost file, so that `--costs` reads them.
Json ToJson(const client::Costs& costs);
Json ToJson(const planner::TimeModel& costs);

// A YAML document as JSON: the job file inside a job. Plain scalars become
// numbers, booleans and null as YAML 1.2 reads them. Null when it is not YAML.
Json YamlToJson(const std::string& yaml);
// The other way, for `-o yaml`.
std::string JsonToYaml(const Json& json);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_TO_JSON_H_
