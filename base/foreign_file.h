#ifndef EVENSTEP_BASE_FOREIGN_FILE_H_
#define EVENSTEP_BASE_FOREIGN_FILE_H_

// Recognizes files of other formats by their first bytes, so that a reader can
// say "it is a Git LFS pointer" instead of "it is not what I want". Used by the
// readers of weights, tokenizers, configurations and data, after their own
// check has failed or before they take a file for plain text. Stateless.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace evenstep {

// How much of a file DescribeForeignFile needs at most.
inline constexpr size_t kForeignFileBytes = 256;

// A noun phrase such as "a gzip file", with the way out where there is only
// one: "a Git LFS pointer, ...; run `git lfs pull` ...". Empty: the bytes are
// of no format in the table.
std::string DescribeForeignFile(absl::string_view first_bytes);

// The same for a file. Empty also where it cannot be read.
std::string DescribeForeignFileAt(const std::string& path);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_FOREIGN_FILE_H_
