#include "data/index/build_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "data/sample_rules.h"

namespace evenstep::data {
namespace {

// Of what the keys are made; an index of another is made again.
constexpr int64_t kKeyVersion = 5;
// Progress is reported after so many bytes.
constexpr int64_t kReportBytes = int64_t{1} << 20;

}  // namespace

uint64_t ListingKey(const FileList& list, uint64_t tokenizer_key) {
  Fnv1a64 hash;
  hash.AddInt(kKeyVersion);
  hash.AddInt(static_cast<int64_t>(tokenizer_key));
  hash.AddInt(list.is_one_file ? 1 : 0);
  for (const ListedFile& file : list.files) {
    hash.AddString(file.name);
    hash.AddInt(file.bytes);
    hash.AddInt(file.mtime_ns);
    hash.AddString(file.problem);
  }
  return hash.value();
}

IndexBuilder::IndexBuilder(uint64_t tokenizer_key,
                           IndexProgressFunction progress)
    : report_(std::move(progress)) {
  content_hash_.AddInt(kKeyVersion);
  content_hash_.AddInt(static_cast<int64_t>(tokenizer_key));
}

void IndexBuilder::SetTotalBytes(int64_t bytes) {
  progress_.bytes_total = bytes;
  Report();
}

void IndexBuilder::Advance(int64_t bytes) {
  // A file may grow while it is read.
  progress_.bytes_done =
      std::min(progress_.bytes_done + bytes, progress_.bytes_total);
  Work(bytes);
}

void IndexBuilder::Work(int64_t bytes) {
  unreported_bytes_ += bytes;
  if (unreported_bytes_ >= kReportBytes) Report();
}

void IndexBuilder::Report() {
  unreported_bytes_ = 0;
  ++progress_.num_reports;
  if (report_ && !stopped()) stopped_ = report_(progress_);
}

void IndexBuilder::AddFile(const ListedFile& file, int64_t kind) {
  IndexedFile row;
  row.name_offset = AddName(file.name);
  row.name_bytes = static_cast<int64_t>(file.name.size());
  row.bytes = file.bytes;
  row.mtime_ns = file.mtime_ns;
  row.kind = kind;
  content_.files.push_back(row);
  content_hash_.AddInt(file.bytes);
  content_hash_.AddInt(kind);
}

int64_t IndexBuilder::AddName(absl::string_view text) {
  const auto offset = static_cast<int64_t>(content_.names.size());
  absl::StrAppend(&content_.names, text);
  content_hash_.AddString(text);
  return offset;
}

void IndexBuilder::AddDocument(const std::string& name,
                               const IndexedDocument& row,
                               absl::Span<const int64_t> details) {
  if (row.num_tokens == 0 || row.bytes == 0) return AddBad(name, "empty");
  content_.details.insert(content_.details.end(), details.begin(),
                          details.end());
  IndexedDocument document = row;
  document.file = static_cast<int32_t>(content_.files.size()) - 1;
  document.details_end = static_cast<int64_t>(content_.details.size());
  content_hash_.AddInt(document.number);
  content_hash_.AddInt(document.num_tokens);
  content_hash_.AddInt(document.num_trained);
  content_hash_.AddInt(static_cast<int64_t>(document.hash));
  for (const int64_t detail : details) content_hash_.AddInt(detail);
  content_.documents.push_back(document);
}

void IndexBuilder::AddBad(const std::string& name, absl::string_view reason) {
  ++content_.header.num_bad;
  content_hash_.AddString("bad");
  if (content_.notes.size() > kMostNoteBytes) return;
  const std::string note = absl::StrCat(name, ": ", reason);
  // A note is a line, whatever a file is called.
  absl::StrAppend(&content_.notes, absl::StrReplaceAll(note, {{"\n", "\\n"}}),
                  "\n");
}

absl::StatusOr<std::string> IndexBuilder::Finish(uint64_t listing_key) && {
  EVENSTEP_RETURN_IF_ERROR(stopped_);
  content_.header.listing_key = listing_key;
  content_.header.content_key = content_hash_.value();
  return SerializeIndex(std::move(content_));
}

}  // namespace evenstep::data
