#ifndef EVENSTEP_DATA_INDEX_INDEX_CACHE_H_
#define EVENSTEP_DATA_INDEX_INDEX_CACHE_H_

// Keeps length indexes on disk between runs, so that documents are scanned and
// tokenized once. An index that is damaged, of another version, or of other
// files, settings or tokenizer is never used: it is made again. Several
// processes may do so at once; each writes a file of its own and renames it.
// Stateless.

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/index/build_index.h"
#include "data/index/length_index.h"
#include "data/text/file_list.h"

namespace evenstep::data {

// The index of `list`, from the cache, or what `scan` now adds to a builder.
// Kept in options.cache_dir; if that is empty in list.root, or, where that
// cannot be written, under $XDG_CACHE_HOME/evenstep or ~/.cache/evenstep; if
// that fails too, only in memory, with a warning. Errors of `scan` and of
// IndexBuilder. What
// was found is logged.
absl::StatusOr<LengthIndex> LoadOrBuildIndex(
    const FileList& list, const DatasetOptions& options, uint64_t tokenizer_key,
    const std::function<absl::Status(IndexBuilder&)>& scan);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_INDEX_CACHE_H_
