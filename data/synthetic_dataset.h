#ifndef EVENSTEP_DATA_SYNTHETIC_DATASET_H_
#define EVENSTEP_DATA_SYNTHETIC_DATASET_H_

// `synthetic:LAW`: documents that nobody wrote, with lengths of a named law
// (length_law.h) or from a file of lengths (length_list.h), for benchmarks and
// tests. LAW may be followed by `;documents=N` and `;seed=S`. A document's
// bytes are a counter with a start and a stride of its own: easy to learn, and
// the same on every rank. Called by source_kind.h.

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"

namespace evenstep::data {

inline constexpr int64_t kDefaultSyntheticDocuments = 4096;

// As OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenSyntheticDataset(
    const DatasetOptions& options, absl::string_view spec);
absl::Status LookForSynthetic(absl::string_view spec);
// Whether the spec is a file of lengths.
bool IsSyntheticPath(absl::string_view spec);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SYNTHETIC_DATASET_H_
