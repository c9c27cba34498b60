#include "data/index/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace evenstep::data {

struct ContentHasher::State {
  XXH3_state_t xxh;
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) { Reset(); }
ContentHasher::~ContentHasher() = default;
ContentHasher::ContentHasher(ContentHasher&&) noexcept = default;

void ContentHasher::Reset() { XXH3_64bits_reset(&state_->xxh); }

void ContentHasher::Add(absl::string_view bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

uint64_t ContentHasher::value() const {
  return XXH3_64bits_digest(&state_->xxh);
}

uint64_t HashContent(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace evenstep::data
