#ifndef EVENSTEP_DATA_INDEX_INDEX_CACHE_H_
#define EVENSTEP_DATA_INDEX_INDEX_CACHE_H_

// Keeps length indexes on disk between runs, so that documents are read and
// tokenized once. An index that is damaged, of another version, or of other
// files or another tokenizer is never used: it is made again, in its place.
// There is one per source and tokenizer, whatever a job's rules are and however
// the path is written: by links, from another folder, with `..`. Where one is
// kept beside the data its name does not depend on the folder's path either, so
// a folder that is moved or mounted elsewhere keeps it.
//
// Whoever stores an index removes those of earlier versions beside it: nothing
// reads them again.
//
// An index is kept in options.cache_dir. If that is empty, it is kept in the
// data's folder, but only where that folder is the user's own (the effective
// user owns it) and no part of the system (kSystemFolders); else under
// $XDG_CACHE_HOME/evenstep/index or ~/.cache/evenstep/index; if that fails too,
// only in memory, with a warning. An index that is beside the data is used
// whoever wrote it.
//
// Processes that need the same index at once take turns (a lock file, while one
// of them indexes): one makes it, the others use it, and report its progress
// while they wait. Where locks do not work,
// each makes its own. An index file is whole or absent. Stateless.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "data/index/build_index.h"
#include "data/index/selection.h"
#include "data/text/file_list.h"

namespace evenstep::data {

// Nothing of our own is written below these.
inline constexpr absl::string_view kSystemFolders[] = {
    "bin", "boot", "dev", "etc",  "lib", "lib32", "lib64",
    "opt", "proc", "run", "sbin", "sys", "usr",   "var"};

// Whether an index may be kept in `folder`, data's own.
bool MayKeepIndexIn(const std::string& folder);

// The samples that a job makes of `list`, by an index from the cache or from
// what `scan` now adds to a builder. What was found is logged. Errors of
// `scan`, of options.progress and of Selection.
absl::StatusOr<Selection> OpenSelection(
    const FileList& list, const DatasetOptions& options, uint64_t tokenizer_key,
    const std::function<absl::Status(IndexBuilder&)>& scan,
    const Selection::Source& source);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_INDEX_CACHE_H_
