#include "coordinator/attempts/stall_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evenstep::coordinator {
namespace {

// Ranks that an error names; it counts the others.
constexpr size_t kNamedRanks = 16;

// "rank 1 did not end"; empty if no rank is missing.
std::string DescribeMissing(const std::vector<int>& ranks,
                            absl::string_view what) {
  if (ranks.empty()) return "";
  const size_t named = std::min(ranks.size(), kNamedRanks);
  std::string text =
      absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                   absl::StrJoin(ranks.begin(), ranks.begin() + named, ", "));
  if (named < ranks.size()) {
    absl::StrAppend(&text, " and ", ranks.size() - named, " more");
  }
  return absl::StrCat(text, " did not ", what);
}

}  // namespace

absl::Duration StallWatch::Look(const JobSteps& steps, const RankReports& ranks,
                                absl::Duration now) {
  const Progress progress = {
      steps.next_step(), steps.HeldPlans().size(), steps.num_waiting_reports(),
      steps.num_step_reports(), ranks.RanksNotEnded().size()};
  if (std::exchange(last_, progress) != progress) since_ = now;
  return now - since_;
}

std::string DescribeStall(const JobSteps& steps, const RankReports& ranks) {
  std::vector<std::string> missing;
  const std::vector<const v1::StepPlan*> held = steps.HeldPlans();
  if (!held.empty()) {  // later steps follow from the first
    const int64_t step = held.front()->step();
    missing.push_back(DescribeMissing(steps.RanksWithoutReport(step),
                                      absl::StrCat("report step ", step)));
  }
  const int64_t next = steps.next_step();
  missing.push_back(
      DescribeMissing(steps.RanksWithoutLengths(),
                      absl::StrCat("report the lengths of step ", next)));
  if (steps.planning()) {
    missing.push_back(
        absl::StrCat("step ", next - 1, " is still with the planner"));
  }
  std::erase(missing, "");
  if (missing.empty()) return DescribeMissing(ranks.RanksNotEnded(), "end");
  return absl::StrJoin(missing, "; ");
}

}  // namespace evenstep::coordinator
