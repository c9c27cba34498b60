#ifndef EVENSTEP_DATA_SOURCE_KIND_H_
#define EVENSTEP_DATA_SOURCE_KIND_H_

// The kinds of source that a job's data may have, in one table: what its name
// is, how it is opened, how it is looked for. Job files, the CLI and
// OpenDataset all go through it, so a new kind is one row here and a file of
// its own. Pure but for `open` and `look`; stateless.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/dataset.h"

namespace evenstep::data {

struct SourceKind {
  absl::string_view prefix;  // "text:"
  absl::string_view form;    // "text:PATH"
  // `options.source` without the prefix.
  absl::StatusOr<std::unique_ptr<Dataset>> (*open)(
      const DatasetOptions& options, absl::string_view rest);
  // Whether there is something to open, at a glance: no file is read.
  // NOT_FOUND or INVALID_ARGUMENT.
  absl::Status (*look)(absl::string_view rest);
  // Whether what follows the prefix is a path.
  bool (*is_path)(absl::string_view rest);
};

absl::Span<const SourceKind> SourceKinds();
// Null: the source has no known prefix, or nothing follows it.
const SourceKind* FindSourceKind(absl::string_view source);
// INVALID_ARGUMENT with what to write instead of a source for which
// FindSourceKind is null: nothing follows the colon, the kind is misspelled, or
// there is none.
absl::Status ExplainNoKind(absl::string_view source);
// Whether it begins as a source does, with a word and a colon, known or not.
bool LooksLikeSource(absl::string_view source);
// `source`, as text:PATH if it is a bare path: of a folder, of a file that is
// not named as a job is (.yaml, .yml, no ending), or a pattern.
std::string TextIfPath(absl::string_view source);
// "text:PATH, megatron:PREFIX, ..."
std::string SourceForms();

// The source with a relative path made absolute against `base_dir`; unknown
// kinds stay as they are.
absl::StatusOr<std::string> AbsoluteSource(absl::string_view source,
                                           absl::string_view base_dir);
// NOT_FOUND or INVALID_ARGUMENT when there is nothing to open.
absl::Status LookForSource(absl::string_view source);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_SOURCE_KIND_H_
