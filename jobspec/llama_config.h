#ifndef EVENSTEP_JOBSPEC_LLAMA_CONFIG_H_
#define EVENSTEP_JOBSPEC_LLAMA_CONFIG_H_

// The config.json that Hugging Face's Llama is saved with, as an outsider may
// write it: which model it means, and whether a job's model is that one. Used
// for weights that do not say it themselves (weights_model.h). No state; no
// torch.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

inline constexpr char kConfigName[] = "config.json";
// What a configuration means that has no epsilon.
inline constexpr double kLlamaEpsilon = 1e-6;
// The text of the one beside `weights_file`. Errors of ReadWholeFile.
absl::StatusOr<std::string> ReadConfigBeside(const std::string& weights_file);

// The model that it means, with Llama's defaults; ValidateModelSpec says
// whether it can be one. DATA_LOSS: no JSON object, with the cause
// (base/strict_json.h). FAILED_PRECONDITION: it is of no Llama, a size is
// missing or no count, or a number is not a number (with what is there).
absl::StatusOr<ModelSpec> ParseLlamaConfig(absl::string_view text);

// FAILED_PRECONDITION with both values: it is of no Llama, of one with parts
// that the trainer's has not, or of other heads, epsilon or rotary angles than
// `model`. An epsilon or a rope_theta that it does not say is Llama's default;
// what else it does not say agrees. DATA_LOSS as above.
absl::Status CheckLlamaConfig(absl::string_view text, const ModelSpec& model);

// Whether it says that the model's head is not its embedding; one that does not
// mention it says nothing. DATA_LOSS as above.
absl::StatusOr<bool> SaysTheHeadIsApart(absl::string_view text);

// How many tokens of a text it says that the model was made for; 0: it does not
// say. DATA_LOSS as above.
absl::StatusOr<int64_t> MaxPositions(absl::string_view text);

// Of two descriptions of a model that should be one, `what` differs:
// FAILED_PRECONDITION with both.
absl::Status ModelDiffers(absl::string_view what, absl::string_view theirs,
                          absl::string_view ours);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_LLAMA_CONFIG_H_
