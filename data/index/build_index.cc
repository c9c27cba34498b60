#include "data/index/build_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/sample_rules.h"

namespace evenstep::data {
namespace {

// Bad or too long samples that are named; the rest are counted.
constexpr size_t kMaxNamed = 5;
// Of what the content key is made; an index of another is made again.
constexpr int64_t kContentKeyVersion = 2;

void AddSettings(const DatasetOptions& options, uint64_t tokenizer_key,
                 Fnv1a64* hash) {
  hash->AddInt(kContentKeyVersion);
  hash->AddInt(options.max_length);
  hash->AddInt(static_cast<int64_t>(options.on_too_long));
  hash->AddInt(static_cast<int64_t>(options.on_bad_sample));
  hash->AddInt(static_cast<int64_t>(tokenizer_key));
}

absl::string_view Ellipsis(int64_t count) {
  return count > static_cast<int64_t>(kMaxNamed) ? "; ..." : "";
}

}  // namespace

uint64_t ListingKey(const FileList& list, const DatasetOptions& options,
                    uint64_t tokenizer_key) {
  Fnv1a64 hash;
  AddSettings(options, tokenizer_key, &hash);
  hash.AddString(list.root);
  for (const ListedFile& file : list.files) {
    hash.AddString(file.name);
    hash.AddInt(file.bytes);
    hash.AddInt(file.mtime_ns);
    hash.AddString(file.problem);
  }
  return hash.value();
}

IndexBuilder::IndexBuilder(const DatasetOptions& options,
                           uint64_t tokenizer_key)
    : options_(options) {
  AddSettings(options, tokenizer_key, &content_hash_);
}

void IndexBuilder::AddFile(const ListedFile& file) {
  IndexedFile row;
  row.name_offset = static_cast<int64_t>(content_.names.size());
  row.name_bytes = static_cast<int64_t>(file.name.size());
  row.bytes = file.bytes;
  row.mtime_ns = file.mtime_ns;
  content_.files.push_back(row);
  content_.names += file.name;
  content_hash_.AddString(file.name);
  content_hash_.AddInt(file.bytes);
}

void IndexBuilder::AddDocument(const std::string& name,
                               const IndexedDocument& place,
                               const DocumentSize& size) {
  if (size.num_tokens == 0 || place.bytes == 0) return AddBad(name, "empty");
  if (size.num_tokens > options_.max_length &&
      !AddTooLong(name, size.num_tokens)) {
    return;
  }
  IndexedDocument document = place;
  document.file = static_cast<int64_t>(content_.files.size()) - 1;
  document.num_tokens = size.num_tokens;
  document.length = std::min(size.num_tokens, options_.max_length);
  document.num_trained = size.num_trained;
  content_hash_.AddInt(document.number);
  content_hash_.AddInt(document.num_tokens);
  content_hash_.AddInt(document.num_trained);
  content_.documents.push_back(document);
}

void IndexBuilder::AddBad(const std::string& name, absl::string_view reason) {
  ++content_.header.num_bad;
  content_hash_.AddString("bad");
  if (bad_.size() < kMaxNamed) {
    bad_.push_back(absl::StrCat(name, ": ", reason));
  }
}

// Whether it stays, cut.
bool IndexBuilder::AddTooLong(const std::string& name, int64_t num_tokens) {
  if (options_.on_too_long == OnTooLong::kTruncate) {
    ++content_.header.num_truncated;
    return true;
  }
  ++content_.header.num_too_long;
  if (too_long_.size() < kMaxNamed) {
    too_long_.push_back(absl::StrCat(name, ": ", num_tokens, " tokens"));
  }
  return false;
}

absl::Status IndexBuilder::CheckRules() const {
  const IndexHeader& header = content_.header;
  if (header.num_bad > 0 && options_.on_bad_sample == OnBadSample::kFail) {
    return absl::FailedPreconditionError(
        absl::StrCat(header.num_bad, " bad samples in ", options_.source, ": ",
                     absl::StrJoin(bad_, "; "), Ellipsis(header.num_bad),
                     " (data.on_bad_sample: skip leaves them out)"));
  }
  if (header.num_too_long > 0 && options_.on_too_long == OnTooLong::kFail) {
    return absl::FailedPreconditionError(absl::StrCat(
        header.num_too_long, " samples of ", options_.source,
        " are longer than max_length ", options_.max_length, ": ",
        absl::StrJoin(too_long_, "; "), Ellipsis(header.num_too_long),
        " (raise data.max_length, or data.on_too_long: skip or truncate)"));
  }
  if (!content_.documents.empty()) return absl::OkStatus();
  return NoSampleLeft(options_, header.num_bad, header.num_too_long, bad_);
}

absl::StatusOr<std::string> IndexBuilder::Finish(uint64_t listing_key) && {
  EVENSTEP_RETURN_IF_ERROR(CheckRules());
  content_.header.listing_key = listing_key;
  content_.header.content_key = content_hash_.value();
  for (const std::string& note : bad_) {
    absl::StrAppend(&content_.notes, note, "\n");
  }
  return SerializeIndex(std::move(content_));
}

}  // namespace evenstep::data
