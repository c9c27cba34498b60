#ifndef EVENSTEP_CLIENT_PLAN_TIMELINE_CHART_H_
#define EVENSTEP_CLIENT_PLAN_TIMELINE_CHART_H_

// The picture of a step: time from left to right, ranks from top to bottom, a
// box per micro-batch in the colour of its degree, hatched where ranks wait.
// Large steps are drawn as a grid of cells, each in the colour of the degree
// that fills most of it, paler the more of it is waiting. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/request.h"
#include "planner/simulator.h"

namespace evenstep::plan {

// Above these a step is drawn as cells.
inline constexpr int kMaxDrawnRanks = 128;
inline constexpr size_t kMaxDrawnMicroBatches = 4000;

// Class of the style sheet for a degree: degrees are numbered as they ascend.
std::string DegreeClass(const std::vector<int>& degrees, int degree);

struct TimelineScale {
  int64_t end_ns = 0;        // the right end of the time axis
  int64_t bound_ns = 0;      // a line across all ranks; 0: none
  std::vector<int> degrees;  // that have a colour, ascending
};

std::string TimelineChart(const planner::PlanRequest& request,
                          const planner::Plan& plan,
                          const planner::SimulatedStep& step,
                          const TimelineScale& scale);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_TIMELINE_CHART_H_
