// JSON as an outsider may write it. What is accepted means the same when it is
// written and read again; what is refused has a short sentence in UTF-8.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr size_t kMaxSentence = 400;
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto json = evenstep::ParseStrictJson(text);
  if (!json.ok()) {
    const absl::string_view sentence = json.status().message();
    EVENSTEP_CHECK(sentence.size() <= kMaxSentence, "the sentence is short");
    EVENSTEP_CHECK(evenstep::CheckUtf8("it", sentence).ok(), "it is UTF-8");
    return 0;
  }
  EVENSTEP_CHECK(text.find('\0') == absl::string_view::npos, "NUL is refused");
  const auto again = evenstep::ParseStrictJson(json->dump());
  EVENSTEP_CHECK(again.ok() && *again == *json, "it reads back");
  return 0;
}
