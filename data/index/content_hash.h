#ifndef EVENSTEP_DATA_INDEX_CONTENT_HASH_H_
#define EVENSTEP_DATA_INDEX_CONTENT_HASH_H_

// XXH3, 64 bits: tells whether bytes are those that were indexed. It finds
// damage and edits; it is no defence against somebody who forges bytes. The
// value of the same bytes is the same on every machine, so it may be stored.
// A hasher is used by one thread.
//
//   ContentHasher hasher;
//   hasher.Add(first_block);
//   hasher.Add(second_block);
//   row.hash = hasher.value();

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace evenstep::data {

class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(ContentHasher&&) noexcept;

  // As if it were new.
  void Reset();
  void Add(absl::string_view bytes);
  // Of everything added since, however it was cut into pieces.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t HashContent(absl::string_view bytes);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_CONTENT_HASH_H_
