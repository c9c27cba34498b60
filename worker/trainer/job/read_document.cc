#include "worker/trainer/job/read_document.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {

absl::StatusOr<data::SampleTokens> ReadDocument(const data::Dataset& dataset,
                                                const DocumentWanted& wanted,
                                                int64_t step) {
  auto sample = dataset.Read(wanted.document);
  if (!sample.ok()) {
    return WithReason(sample.status(), FailureReason::kDataError, step);
  }
  const int64_t length = data::NumTokens(*sample);
  if (length != wanted.planned_length) {
    return FailureError(
        FailureReason::kDataError, step,
        absl::StrCat(wanted.name, " has ", length, " tokens, the plan says ",
                     wanted.planned_length));
  }
  const auto largest =
      std::max_element(sample->tokens.begin(), sample->tokens.end());
  if (largest == sample->tokens.end() || *largest < wanted.vocab) {
    return sample;
  }
  return FailureError(FailureReason::kDataError, step,
                      absl::StrCat(wanted.name, " has token ", *largest,
                                   ", model.vocab is ", wanted.vocab));
}

}  // namespace evenstep::trainer
