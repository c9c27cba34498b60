#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_CHOOSE_TOKEN_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_CHOOSE_TOKEN_H_

// The next token from a model's scores. A pure function: the same scores,
// options and place give the same token. No torch.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace evenstep::trainer {

struct ChoiceOptions {
  double temperature = 1;  // 0: the likeliest token, whatever the rest says
  int64_t top_k = 0;       // of the likeliest so many; 0: of all
  // Of the fewest likeliest whose probabilities sum to it (Holtzman et al.,
  // 2020), after top_k.
  double top_p = 1;
  uint64_t seed = 0;
};

// INVALID_ARGUMENT with the number: temperature below 0, top_k below 0, top_p
// not above 0 and up to 1.
absl::Status ValidateChoice(const ChoiceOptions& options);

// `place` counts the choices of one text. Of equally likely tokens the first
// comes first. FAILED_PRECONDITION: a score is no finite number.
absl::StatusOr<int32_t> ChooseToken(absl::Span<const float> scores,
                                    const ChoiceOptions& options,
                                    int64_t place);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_CHOOSE_TOKEN_H_
