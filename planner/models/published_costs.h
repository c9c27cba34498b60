#ifndef EVENSTEP_PLANNER_MODELS_PUBLISHED_COSTS_H_
#define EVENSTEP_PLANNER_MODELS_PUBLISHED_COSTS_H_

// Cost files for `evenstep plan`: a model and its costs as YAML. The built-in
// ones, planner/models/NAME.yaml, have cost constants that others published,
// with the source of each beside it; they are part of the binary, for tests and
// comparisons, and never used for a job. The keys are the fields of model.h:
//
//   name: my-model                       # and source:, both optional
//   model: {num_layers: 24, width: 2048, heads: 16}
//   time: {...}                          # planner/costs/cost_file.h
//   memory: {tokens_per_rank: 20000}
//
// Memory is tokens_per_rank, or bytes per token with activation_bytes, or with
// what those follow from: device_bytes, margin (a share of them kept free),
// parameters and states (replicated_float32; zero1_float32 or zero1_bfloat16
// with states_over_ranks and shard_replicas). Stateless; no I/O.

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

// INVALID_ARGUMENT with "NAME:LINE: sentence" that quotes the key and the
// number, also for numbers that no request may have (validate.h).
absl::StatusOr<PublishedCosts> ParseCosts(absl::string_view yaml,
                                          absl::string_view name);

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
