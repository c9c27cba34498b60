#ifndef EVENSTEP_DATA_MEGATRON_MEGATRON_DATASET_H_
#define EVENSTEP_DATA_MEGATRON_MEGATRON_DATASET_H_

// `megatron:PREFIX`: the pair PREFIX.bin and PREFIX.idx that Megatron-LM's
// tools write (megatron_index.h). A document is a sample, with its sequences
// laid end to end; tokens are taken as they stand, all but the first trained.
// Called by source_kind.h.

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"

namespace evenstep::data {

// As OpenDataset; DATA_LOSS naming an index file that is not sound.
absl::StatusOr<std::unique_ptr<Dataset>> OpenMegatronDataset(
    const DatasetOptions& options, absl::string_view prefix);
absl::Status LookForMegatron(absl::string_view prefix);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_MEGATRON_MEGATRON_DATASET_H_
