#ifndef EVENSTEP_DATA_BUILD_INDEX_H_
#define EVENSTEP_DATA_BUILD_INDEX_H_

// Makes a length index of listed files: plain files by their sizes alone, JSONL
// files (named *.jsonl) line by line; and applies the job's rules for samples
// that are bad or too long. Stateless.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/file_list.h"

namespace evenstep::data {

// Names what an index depends on: the files with sizes and times, the settings.
uint64_t ListingKey(const FileList& list, const DatasetOptions& options);

// The index's bytes. FAILED_PRECONDITION: a sample breaks a rule whose setting
// is `fail` (the first are named, all are counted), or no sample is left.
absl::StatusOr<std::string> BuildIndex(const FileList& list,
                                       const DatasetOptions& options);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_BUILD_INDEX_H_
