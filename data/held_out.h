#ifndef EVENSTEP_DATA_HELD_OUT_H_
#define EVENSTEP_DATA_HELD_OUT_H_

// Splits a data set into documents that are trained on and documents that are
// held out for evaluation. Which is which depends on the document's number and
// the seed alone, so every rank of every attempt holds out the same. The parts
// share the data set; each is as thread-safe as it is.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "data/dataset.h"

namespace evenstep::data {

struct HeldOutSplit {
  std::unique_ptr<Dataset> training;
  std::unique_ptr<Dataset> held_out;  // null when `share` is 0
};

// `share` in [0, 1): of the documents, on average. FAILED_PRECONDITION when
// either part would be empty, with the numbers.
absl::StatusOr<HeldOutSplit> SplitHeldOut(std::unique_ptr<Dataset> dataset,
                                          double share, uint64_t seed);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_HELD_OUT_H_
