#ifndef EVENSTEP_PLANNER_MODELS_PUBLISHED_COSTS_H_
#define EVENSTEP_PLANNER_MODELS_PUBLISHED_COSTS_H_

// Cost constants that others published, and models put together from them, for
// tests, comparisons and `evenstep plan`. Never used for a real job unless it
// asks for them by name. Every constant's source stands beside it in its file,
// planner/models/NAME.yaml (format: cost_file.h), which is part of the binary.
// Stateless.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/request.h"

namespace evenstep::planner {

struct PublishedCosts {
  std::string name;
  std::string source;
  ModelShape model;
  TimeModel time;
  MemoryModel memory;  // in bytes; a stated tokens_per_rank overrides it
};

// flexsp-7b-a100, flexsp-13b-a100, flexsp-30b-a100: as published, a round of
// ZeRO-3 as the fixed cost. h200-1.2b-1d, h200-5b-1d: text models on H200s;
// h200-1.2b-2d, h200-5b-2d: video models. NOT_FOUND names the known ones.
absl::StatusOr<PublishedCosts> FindPublishedCosts(absl::string_view name);

std::vector<std::string> PublishedCostNames();

// The files of planner/models/ as text in the binary, so that no file is read
// when a plan is made. CMake writes them into builtin_models.cc.
struct BuiltinModel {
  const char* name;  // of the file, without .yaml
  const char* yaml;
};

absl::Span<const BuiltinModel> BuiltinModels();

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_MODELS_PUBLISHED_COSTS_H_
