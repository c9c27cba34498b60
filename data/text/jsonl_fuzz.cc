// Files of JSON records as an outsider may write them: one record, records cut
// from a text, and compressed ones. An accepted document is measured and
// encoded at several lengths, which must agree; what is unpacked stays within
// its bound; records lie within their text and do not overlap.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "data/index/length_index.h"
#include "data/text/jsonl.h"
#include "data/text/unpack.h"

namespace {

using evenstep::data::kIgnoredTarget;
using evenstep::data::Packing;
using evenstep::data::TextLayout;

constexpr int64_t kMaxUnpacked = 1 << 20;

void CompareAt(const evenstep::data::TextDocument& document,
               int64_t max_length) {
  static const auto* const kTokenizer =
      evenstep::data::ByteTokenizer().release();
  const auto size = MeasureDocument(document, *kTokenizer);
  const auto sample = EncodeDocument(document, *kTokenizer, max_length);
  if (!size.ok() || !sample.ok()) std::abort();
  const auto length = static_cast<int64_t>(sample->tokens.size());
  const auto trained =
      std::count_if(sample->targets.begin(), sample->targets.end(),
                    [](int32_t target) { return target != kIgnoredTarget; });
  if (length != std::min(size->num_tokens, max_length) ||
      trained != evenstep::data::TokensInRuns(size->trained_runs, max_length) ||
      sample->targets.size() != sample->tokens.size()) {
    std::abort();
  }
}

void ParseOne(absl::string_view record) {
  const auto document = evenstep::data::ParseJsonDocument(record);
  if (!document.ok()) {
    if (document.status().message().empty()) std::abort();
    return;
  }
  for (const int64_t max_length : {1, 2, 7, 1 << 20}) {
    CompareAt(*document, max_length);
  }
}

void CutAll(absl::string_view text, TextLayout layout) {
  int64_t end = 0;
  CutJsonRecords(text, layout, [&](const evenstep::data::JsonLine& line) {
    if (line.offset < end || line.bytes < 1 ||
        line.content != text.substr(static_cast<size_t>(line.offset),
                                    static_cast<size_t>(line.bytes))) {
      std::abort();
    }
    end = line.offset + line.bytes;
    ParseOne(line.content);
  }).IgnoreError();
}

void UnpackAll(absl::string_view packed) {
  const Packing packing = evenstep::data::PackingOf(packed);
  if (packing == Packing::kNone) return;
  std::string text;
  const auto unpacker = evenstep::data::MakeUnpacker(
      packing, kMaxUnpacked, [&](absl::string_view bytes) {
        text.append(bytes.data(), bytes.size());
        return true;
      });
  // In two pieces, for what a piece cuts.
  const size_t cut = packed.size() / 2;
  absl::Status status = unpacker->Add(packed.substr(0, cut));
  if (status.ok()) status = unpacker->Add(packed.substr(cut));
  if (status.ok()) status = unpacker->Finish();
  if (static_cast<int64_t>(text.size()) > kMaxUnpacked) std::abort();
  CutAll(text, TextLayout::kLines);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  ParseOne(text);
  CutAll(text, TextLayout::kLines);
  CutAll(text, TextLayout::kValues);
  UnpackAll(text);
  if (evenstep::data::NotTextReason(text).empty()) {
    evenstep::data::CheckWholeText(text);
  }
  return 0;
}
