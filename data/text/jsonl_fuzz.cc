// Lines of JSONL files as an outsider may write them. An accepted document is
// measured and encoded at several lengths, which must agree.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/text/jsonl.h"

namespace {

using evenstep::data::kIgnoredTarget;

void CompareAt(const evenstep::data::TextDocument& document,
               int64_t max_length) {
  static const auto* const kTokenizer =
      evenstep::data::ByteTokenizer().release();
  const auto size = MeasureDocument(document, *kTokenizer, max_length);
  const auto sample = EncodeDocument(document, *kTokenizer, max_length);
  if (!size.ok() || !sample.ok()) std::abort();
  const auto length = static_cast<int64_t>(sample->tokens.size());
  const auto trained =
      std::count_if(sample->targets.begin(), sample->targets.end(),
                    [](int32_t target) { return target != kIgnoredTarget; });
  if (length != std::min(size->num_tokens, max_length) ||
      trained != size->num_trained ||
      sample->targets.size() != sample->tokens.size()) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto document = evenstep::data::ParseJsonDocument(
      absl::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!document.ok()) return 0;
  for (const int64_t max_length : {1, 2, 7, 1 << 20}) {
    CompareAt(*document, max_length);
  }
  return 0;
}
