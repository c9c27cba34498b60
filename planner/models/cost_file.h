#ifndef EVENSTEP_PLANNER_MODELS_COST_FILE_H_
#define EVENSTEP_PLANNER_MODELS_COST_FILE_H_

// A model and its costs as YAML: the built-in ones in planner/models/, and
// files that people hand to `evenstep plan`. The keys are the fields of
// model.h:
//
//   name: my-model                       # and source:, both optional
//   model: {num_layers: 24, width: 2048, heads: 16}
//   time:
//     micro_batch_fixed_ns: 1656000
//     linear_ns_per_token: 15619.7
//     quadratic_ns_per_token2: 0.8604
//     collective: [{degree: 2, ns_per_token: 1117.5}]
//   memory: {tokens_per_rank: 20000}
//
// Memory is tokens_per_rank, or bytes per token with activation_bytes, or with
// what those follow from: device_bytes, margin (a share of them kept free),
// parameters and states (replicated_float32; zero1_float32 or zero1_bfloat16
// with states_over_ranks and shard_replicas). Text in, plain struct out; no
// I/O. Stateless.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/models/published_costs.h"

namespace evenstep::planner {

// INVALID_ARGUMENT with "NAME:LINE: sentence" that quotes the key and the
// number, also for numbers that no request may have (validate.h).
absl::StatusOr<PublishedCosts> ParseCosts(absl::string_view yaml,
                                          absl::string_view name);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_MODELS_COST_FILE_H_
