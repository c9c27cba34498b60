#ifndef EVENSTEP_CLIENT_PLAN_PLAN_TABLE_H_
#define EVENSTEP_CLIENT_PLAN_PLAN_TABLE_H_

// A comparison of policies in words and columns, for a terminal and for the
// report alike. Pure functions.

#include <string>
#include <vector>

#include "client/plan/policy_runs.h"

namespace evenstep::plan {

using TextRows = std::vector<std::vector<std::string>>;

// What was asked, in one line: "512 samples, 620k tokens, longest 179,072; 64
// GPUs ...".
std::string DescribeRequest(const planner::PlanRequest& request);
// "lower bound 4.734 s (destructive)", or that every policy draws a step of its
// own; empty if no policy has a plan.
std::string DescribeBound(const Comparison& comparison);

// Those that have a plan: the least step time first; of elastic batches, which
// differ, the most tokens a second.
std::vector<const PolicyRun*> FastestFirst(const Comparison& comparison);
int64_t TokensOf(const std::vector<planner::Sample>& samples);

// One row per policy that has a plan, in that order, with a header.
TextRows ComparisonTable(const Comparison& comparison);
// "bucket: no plan: REASON", one per policy that has none; one for all if the
// reason is the same.
std::vector<std::string> Failures(const Comparison& comparison);

// The micro-batches of one plan, with a header. Samples are shown by id, which
// is the position in the list of lengths.
TextRows PlanRows(const planner::PlanRequest& request,
                  const planner::Plan& plan);

// 950, "12.3k", "4.56M".
std::string ShortCount(double count);
// 1234567 is "1,234,567".
std::string WithCommas(int64_t value);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_PLAN_TABLE_H_
