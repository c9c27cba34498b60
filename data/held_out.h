#ifndef EVENSTEP_DATA_HELD_OUT_H_
#define EVENSTEP_DATA_HELD_OUT_H_

// Splits a data set into documents that are trained on and documents that are
// held out for evaluation, and chooses those of the latter that are evaluated.
// Which is which depends on the document's number and the seed alone, so every
// rank of every attempt holds out the same. The parts share the data set; each
// is as thread-safe as it is.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "data/dataset.h"

namespace evenstep::data {

struct HeldOutSplit {
  std::unique_ptr<Dataset> training;
  std::unique_ptr<Dataset> held_out;  // null when `share` is 0
};

// `share` in [0, 1): of the documents, on average. FAILED_PRECONDITION when
// either part would be empty, with the numbers. What the data's rules have left
// out or cut is counted in the summary of `training`, and there alone.
absl::StatusOr<HeldOutSplit> SplitHeldOut(std::unique_ptr<Dataset> dataset,
                                          double share, uint64_t seed);

struct EvaluatedDocuments {
  std::vector<int64_t> documents;  // of the held-out part, in a drawn order
  int64_t num_tokens = 0;
  int64_t num_untrained = 0;  // passed over: no token has a loss
};

// At most `most` (0: all).
EvaluatedDocuments ChooseEvaluated(const Dataset& held_out, int64_t most,
                                   uint64_t seed);

// How many of `documents` of `held_out` are among the documents of `training`
// too, by their bytes.
int64_t CountTrainedOn(const Dataset& training, const Dataset& held_out,
                       const std::vector<int64_t>& documents);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_HELD_OUT_H_
