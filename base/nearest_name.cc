#include "base/nearest_name.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evenstep {
namespace {

// Longer names are no slips of the finger, and would cost time.
constexpr size_t kMaxComparedLetters = 64;

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& known) {
  if (name.size() > kMaxComparedLetters) return "";
  std::string nearest;
  // Two letters swapped are two edits.
  const size_t allowed =
      name.size() < 4 ? 1 : std::max<size_t>(2, name.size() / 3);
  size_t least = allowed + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string KnownNamesHint(absl::string_view name,
                           const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  const std::string question =
      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
  return absl::StrCat(question, question.empty() ? ";" : "",
                      " known: ", absl::StrJoin(known, ", "));
}

}  // namespace evenstep
