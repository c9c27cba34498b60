#include "data/build_index.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/jsonl.h"
#include "data/length_index.h"

namespace evenstep::data {
namespace {

// Bad or too long samples that are named; the rest are counted.
constexpr size_t kMaxNamed = 5;

void AddSettings(const DatasetOptions& options, Fnv1a64* hash) {
  hash->AddInt(options.max_length);
  hash->AddInt(static_cast<int64_t>(options.on_too_long));
  hash->AddInt(static_cast<int64_t>(options.on_bad_sample));
}

class IndexBuilder {
 public:
  IndexBuilder(const FileList& list, const DatasetOptions& options)
      : list_(list), options_(options) {
    AddSettings(options, &content_hash_);
  }

  absl::StatusOr<std::string> Build() {
    for (const ListedFile& file : list_.files) AddFile(file);
    EVENSTEP_RETURN_IF_ERROR(CheckRules());
    content_.header.listing_key = ListingKey(list_, options_);
    content_.header.content_key = content_hash_.value();
    for (const std::string& note : notes_) {
      absl::StrAppend(&content_.notes, note, "\n");
    }
    return SerializeIndex(std::move(content_));
  }

 private:
  void AddFile(const ListedFile& file) {
    AddFileRow(file);
    if (!file.problem.empty()) {
      AddBad(file.name, file.problem);
    } else if (absl::EndsWith(file.name, ".jsonl")) {
      AddJsonLines(file);
    } else {
      IndexedDocument document;
      document.bytes = file.bytes;
      document.text_bytes = file.bytes;
      AddDocument(file.name, document);
    }
  }

  void AddFileRow(const ListedFile& file) {
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

  void AddJsonLines(const ListedFile& file) {
    const absl::Status status =
        ScanJsonLines(absl::StrCat(list_.root, "/", file.name),
                      [&](const JsonLine& line) { AddJsonLine(file, line); });
    if (!status.ok()) AddBad(file.name, std::string(status.message()));
  }

  void AddJsonLine(const ListedFile& file, const JsonLine& line) {
    const std::string name = absl::StrCat(file.name, ":", line.number);
    const absl::StatusOr<std::string> text = ParseJsonText(line.content);
    if (!text.ok()) return AddBad(name, std::string(text.status().message()));
    IndexedDocument document;
    document.line = line.number;
    document.offset = line.offset;
    document.bytes = line.bytes;
    document.text_bytes = static_cast<int64_t>(text->size());
    AddDocument(name, document);
  }

  void AddDocument(const std::string& name, IndexedDocument document) {
    if (document.text_bytes == 0) return AddBad(name, "empty");
    document.file = static_cast<int64_t>(content_.files.size()) - 1;
    document.length = document.text_bytes + 1;  // and the end token
    if (document.length > options_.max_length) {
      AddTooLong(name, document.length);
      if (options_.on_too_long != OnTooLong::kTruncate) return;
      document.length = options_.max_length;
    }
    content_hash_.AddInt(document.line);
    content_hash_.AddInt(document.text_bytes);
    content_.documents.push_back(document);
  }

  void AddBad(const std::string& name, const std::string& reason) {
    ++content_.header.num_bad;
    content_hash_.AddString("bad");
    if (notes_.size() < kMaxNamed) {
      notes_.push_back(absl::StrCat(name, ": ", reason));
    }
  }

  void AddTooLong(const std::string& name, int64_t length) {
    if (options_.on_too_long == OnTooLong::kTruncate) {
      ++content_.header.num_truncated;
      return;
    }
    ++content_.header.num_too_long;
    if (too_long_.size() < kMaxNamed) {
      too_long_.push_back(absl::StrCat(name, ": ", length, " tokens"));
    }
  }

  absl::Status CheckRules() const {
    const IndexHeader& header = content_.header;
    if (header.num_bad > 0 && options_.on_bad_sample == OnBadSample::kFail) {
      return absl::FailedPreconditionError(absl::StrCat(
          header.num_bad, " bad samples in ", options_.source, ": ",
          absl::StrJoin(notes_, "; "), Ellipsis(header.num_bad),
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
    return absl::FailedPreconditionError(absl::StrCat(
        "no sample is left in ", options_.source, ": ", list_.files.size(),
        " files, ", header.num_bad, " bad samples, ", header.num_too_long,
        " longer than max_length ", options_.max_length));
  }

  static absl::string_view Ellipsis(int64_t count) {
    return count > static_cast<int64_t>(kMaxNamed) ? "; ..." : "";
  }

  const FileList& list_;
  const DatasetOptions& options_;
  IndexContent content_;
  Fnv1a64 content_hash_;
  std::vector<std::string> notes_;
  std::vector<std::string> too_long_;
};

}  // namespace

uint64_t ListingKey(const FileList& list, const DatasetOptions& options) {
  Fnv1a64 hash;
  AddSettings(options, &hash);
  hash.AddString(list.root);
  for (const ListedFile& file : list.files) {
    hash.AddString(file.name);
    hash.AddInt(file.bytes);
    hash.AddInt(file.mtime_ns);
    hash.AddString(file.problem);
  }
  return hash.value();
}

absl::StatusOr<std::string> BuildIndex(const FileList& list,
                                       const DatasetOptions& options) {
  return IndexBuilder(list, options).Build();
}

}  // namespace evenstep::data
