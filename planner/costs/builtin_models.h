#ifndef EVENSTEP_PLANNER_COSTS_BUILTIN_MODELS_H_
#define EVENSTEP_PLANNER_COSTS_BUILTIN_MODELS_H_

// The files of planner/models/ as text in the binary, so that no file is read
// when a plan is made. builtin_models.cc is written by CMake from
// builtin_models.cc.in. Used by published_costs.cc alone. Stateless.

#include "absl/types/span.h"

namespace evenstep::planner {

struct BuiltinModel {
  const char* name;  // of the file, without .yaml
  const char* yaml;
};

absl::Span<const BuiltinModel> BuiltinModels();

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_BUILTIN_MODELS_H_
