#ifndef EVENSTEP_CLIENT_PLAN_AXIS_H_
#define EVENSTEP_CLIENT_PLAN_AXIS_H_

// Round numbers for the axes of the report's pictures. Pure functions.

#include <string>
#include <vector>

namespace evenstep::plan {

struct Tick {
  double value = 0;
  std::string label;
};

// Some `count` round values from 0 to at most `most`, which is above 0.
std::vector<Tick> RoundTicks(double most, int count);

// "12.5 s", "310 ms", "42 us": three digits.
std::string FormatTime(double seconds);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_AXIS_H_
