#ifndef EVENSTEP_CLIENT_PLAN_PLAN_REPORT_H_
#define EVENSTEP_CLIENT_PLAN_PLAN_REPORT_H_

// A comparison of policies as one HTML page that needs nothing else: no
// scripts, no other files. Table, lengths, and for every policy its timeline,
// degrees and memory. Follows the reader's light or dark mode. Pure: the same
// comparison gives the same page, planning times apart.

#include <string>

#include "client/plan/plan_json.h"
#include "client/plan/policy_runs.h"

namespace evenstep::plan {

std::string ReportHtml(const Comparison& comparison, const RequestNames& names);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_PLAN_REPORT_H_
