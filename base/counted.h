#ifndef EVENSTEP_BASE_COUNTED_H_
#define EVENSTEP_BASE_COUNTED_H_

// "1 sample", "3 samples": a number of things, in messages for people. Of nouns
// whose plural takes s, or es after ch. Pure.

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace evenstep {

inline std::string Counted(int64_t count, absl::string_view noun) {
  const char* const plural = absl::EndsWith(noun, "ch") ? "es" : "s";
  return absl::StrCat(count, " ", noun, count == 1 ? "" : plural);
}

}  // namespace evenstep

#endif  // EVENSTEP_BASE_COUNTED_H_
