#ifndef EVENSTEP_BASE_IDS_H_
#define EVENSTEP_BASE_IDS_H_

// Identifiers that must not be mixed up: a value with a type of its own and no
// arithmetic. Plain values; hashable, ordered, printable by value().

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace evenstep {

template <typename Tag, typename Value>
class StrongId {
 public:
  StrongId() = default;
  explicit StrongId(Value value) : value_(std::move(value)) {}

  const Value& value() const { return value_; }

  friend bool operator==(const StrongId&, const StrongId&) = default;
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const StrongId& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Value value_{};
};

using JobId = StrongId<struct JobIdTag, std::string>;
using Rank = StrongId<struct RankTag, int>;
using Generation = StrongId<struct GenerationTag, int64_t>;

// 1 to 63 of [a-z0-9-], beginning with a letter: what a client may choose.
inline bool IsLegalJobId(absl::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  if (text[0] < 'a' || text[0] > 'z') return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
         absl::string_view::npos;
}

}  // namespace evenstep

#endif  // EVENSTEP_BASE_IDS_H_
