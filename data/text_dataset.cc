// `text:` data: documents as bytes. A document of n bytes is n tokens and an
// end token; every token but the last has the next one as its target.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "data/dataset.h"
#include "data/file_list.h"
#include "data/index_cache.h"
#include "data/jsonl.h"

namespace evenstep::data {
namespace {

absl::Status Changed(absl::string_view path, absl::string_view how) {
  return absl::DataLossError(absl::StrCat(
      path, " ", how, " since it was indexed; start the job again"));
}

absl::Status CheckUnchanged(int fd, const std::string& path,
                            const IndexedFile& file) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
  const int64_t mtime_ns =
      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (!S_ISREG(info.st_mode)) return Changed(path, "became another thing");
  if (info.st_size != file.bytes) {
    return Changed(path, absl::StrCat("went from ", file.bytes, " to ",
                                      info.st_size, " bytes"));
  }
  if (mtime_ns != file.mtime_ns) return Changed(path, "was written");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadRange(int fd, const std::string& path,
                                      int64_t offset, int64_t bytes) {
  std::string content(static_cast<size_t>(bytes), '\0');
  size_t got = 0;
  while (got < content.size()) {
    const ssize_t n = pread(fd, content.data() + got, content.size() - got,
                            static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot read", path);
    if (n == 0) return Changed(path, "became shorter");
    got += static_cast<size_t>(n);
  }
  return content;
}

// `length` tokens of the document, which has `length` - 1 bytes or more.
SampleTokens Tokenize(absl::string_view text, int64_t length) {
  SampleTokens sample;
  sample.tokens.reserve(length);
  const auto num_bytes = std::min<int64_t>(length, text.size());
  for (const char c : text.substr(0, num_bytes)) {
    sample.tokens.push_back(static_cast<unsigned char>(c));
  }
  if (num_bytes < length) sample.tokens.push_back(kEndToken);
  sample.targets.assign(sample.tokens.begin() + 1, sample.tokens.end());
  sample.targets.push_back(kIgnoredTarget);
  return sample;
}

class TextDataset : public Dataset {
 public:
  TextDataset(std::string root, LengthIndex index)
      : root_(std::move(root)),
        index_(std::move(index)),
        summary_(index_.summary()) {}

  const DatasetSummary& summary() const override { return summary_; }
  int64_t Length(int64_t document) const override {
    return index_.document(document).length;
  }
  int64_t TrainedTokens(int64_t document) const override {
    return index_.document(document).length - 1;
  }
  std::string Name(int64_t document) const override {
    const IndexedDocument& row = index_.document(document);
    const std::string path =
        absl::StrCat(root_, "/", index_.file_name(row.file));
    return row.line == 0 ? path : absl::StrCat(path, ":", row.line);
  }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    if (document < 0 || document >= summary_.num_samples) {
      return absl::InvalidArgumentError(
          absl::StrCat("document ", document, " of ", summary_.num_samples));
    }
    const IndexedDocument& row = index_.document(document);
    EVENSTEP_ASSIGN_OR_RETURN(const std::string text, ReadText(row));
    return Tokenize(text, row.length);
  }

 private:
  // The document, or as much of it as its length needs.
  absl::StatusOr<std::string> ReadText(const IndexedDocument& row) const {
    const std::string path =
        absl::StrCat(root_, "/", index_.file_name(row.file));
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) {
      return Changed(
          path, absl::StrCat("cannot be opened (", std::strerror(errno), ")"));
    }
    EVENSTEP_RETURN_IF_ERROR(
        CheckUnchanged(fd.get(), path, index_.file(row.file)));
    if (row.line == 0) {
      return ReadRange(fd.get(), path, row.offset,
                       std::min(row.bytes, row.length));
    }
    EVENSTEP_ASSIGN_OR_RETURN(const std::string line,
                              ReadRange(fd.get(), path, row.offset, row.bytes));
    absl::StatusOr<std::string> text = ParseJsonText(line);
    if (!text.ok() || static_cast<int64_t>(text->size()) != row.text_bytes) {
      return Changed(absl::StrCat(path, ":", row.line), "changed");
    }
    return text;
  }

  const std::string root_;
  const LengthIndex index_;
  const DatasetSummary summary_;
};

void LogIndex(const FileList& list, const LengthIndex& index,
              const DatasetOptions& options) {
  const DatasetSummary summary = index.summary();
  Log(LogLevel::kInfo, "data_indexed",
      {{"source", options.source},
       {"files", list.files.size()},
       {"links_left_out", list.num_links},
       {"samples", summary.num_samples},
       {"too_long", summary.num_too_long},
       {"bad", summary.num_bad},
       {"truncated", summary.num_truncated},
       {"longest", summary.longest},
       {"tokens", summary.total_tokens},
       {"content_key", absl::StrCat(absl::Hex(summary.content_key))}});
  for (const absl::string_view note :
       absl::StrSplit(index.notes(), '\n', absl::SkipEmpty())) {
    Log(LogLevel::kWarning, "data_bad_sample", {{"sample", note}});
  }
}

absl::Status CheckOptions(const DatasetOptions& options) {
  if (options.max_length >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("max_length is ", options.max_length, "; at least 1 token"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(
    const DatasetOptions& options) {
  absl::string_view path = options.source;
  if (!absl::ConsumePrefix(&path, "text:")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data source '", options.source,
        "' is not text:PATH; for files of text it is 'text:", options.source,
        "'"));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckOptions(options));
  EVENSTEP_ASSIGN_OR_RETURN(const FileList list, ListFiles(path));
  EVENSTEP_ASSIGN_OR_RETURN(LengthIndex index, LoadOrBuildIndex(list, options));
  LogIndex(list, index, options);
  return std::make_unique<TextDataset>(list.root, std::move(index));
}

}  // namespace evenstep::data
