#include "data/index/length_index.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "data/index/content_hash.h"
#include "data/index/indexed_file.h"

namespace evenstep::data {
namespace {

static_assert(sizeof(IndexedDocument) == 72 && sizeof(IndexedFile) == 40 &&
                  sizeof(IndexHeader) == 96,
              "rows have no holes");

// Bounds that keep the arithmetic on sizes within 63 bits.
constexpr int64_t kMaxRows = int64_t{1} << 40;
constexpr int64_t kMaxOffset = int64_t{1} << 60;

constexpr size_t kVersionAt = 6;  // in the magic bytes

uint64_t Checksum(absl::string_view bytes) {
  constexpr size_t kFrom = offsetof(IndexHeader, checksum);
  ContentHasher hash;
  hash.Add(bytes.substr(0, kFrom));
  hash.Add(bytes.substr(kFrom + sizeof(uint64_t)));
  return hash.value();
}

template <typename Row>
void AppendRows(const std::vector<Row>& rows, std::string* out) {
  out->append(reinterpret_cast<const char*>(rows.data()),
              rows.size() * sizeof(Row));
}

absl::Status Unsound(absl::string_view reason) {
  return absl::DataLossError(absl::StrCat("length index is unsound: ", reason));
}

bool IsCount(int64_t value) { return value >= 0 && value <= kMaxRows; }

absl::Status CheckSizes(const IndexHeader& header, size_t bytes) {
  if (std::memcmp(header.magic, IndexHeader().magic, sizeof(header.magic)) !=
      0) {
    return std::memcmp(header.magic, IndexHeader().magic, kVersionAt) == 0
               ? absl::FailedPreconditionError(
                     "length index is of another version")
               : Unsound("it does not begin as one");
  }
  if (!IsCount(header.num_documents) || !IsCount(header.num_files) ||
      !IsCount(header.num_details) || !IsCount(header.names_bytes) ||
      !IsCount(header.notes_bytes) || !IsCount(header.num_bad) ||
      !IsCount(header.num_json)) {
    return Unsound("a count is out of range");
  }
  const size_t expected = sizeof(IndexHeader) +
                          header.num_documents * sizeof(IndexedDocument) +
                          header.num_files * sizeof(IndexedFile) +
                          header.num_details * sizeof(int64_t) +
                          header.names_bytes + header.notes_bytes;
  if (bytes == expected) return absl::OkStatus();
  return Unsound(absl::StrCat(bytes, " bytes instead of ", expected));
}

bool IsSound(const IndexedDocument& document, int64_t num_files) {
  return document.file >= 0 && document.file < num_files &&
         document.number >= 0 && document.offset >= 0 &&
         document.offset <= kMaxOffset && document.bytes >= 1 &&
         document.bytes <= kMaxOffset && document.num_tokens >= 1 &&
         document.num_tokens <= kMaxOffset && document.num_trained >= 0 &&
         document.num_trained <= document.num_tokens &&
         document.largest_token >= -1 && document.largest_token_at >= 0;
}

}  // namespace

int64_t TokensInRuns(absl::Span<const int64_t> runs, int64_t length) {
  int64_t tokens = 0;
  for (size_t i = 0; i + 1 < runs.size(); i += 2) {
    const int64_t begin = std::clamp<int64_t>(runs[i], 0, length);
    const int64_t end = std::clamp<int64_t>(runs[i + 1], begin, length);
    tokens += end - begin;
  }
  return std::min(tokens, length);
}

std::string SerializeIndex(IndexContent content) {
  IndexHeader& header = content.header;
  header.num_documents = static_cast<int64_t>(content.documents.size());
  header.num_files = static_cast<int64_t>(content.files.size());
  header.num_details = static_cast<int64_t>(content.details.size());
  header.names_bytes = static_cast<int64_t>(content.names.size());
  header.notes_bytes = static_cast<int64_t>(content.notes.size());
  header.checksum = 0;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  AppendRows(content.documents, &bytes);
  AppendRows(content.files, &bytes);
  AppendRows(content.details, &bytes);
  absl::StrAppend(&bytes, content.names, content.notes);
  header.checksum = Checksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

bool IsEarlierIndex(const std::string& path) {
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return false;
  }
  const IndexHeader header;
  const std::string ours(header.magic, sizeof(header.magic));
  const auto magic = ReadRange(fd.get(), path, 0, sizeof(header.magic));
  return magic.ok() && *magic < ours &&
         magic->compare(0, kVersionAt, ours, 0, kVersionAt) == 0;
}

absl::StatusOr<LengthIndex> LengthIndex::FromBytes(std::string bytes) {
  LengthIndex index;
  index.owner_ = std::make_shared<const std::string>(std::move(bytes));
  EVENSTEP_RETURN_IF_ERROR(index.Open(*index.owner_));
  return index;
}

absl::StatusOr<LengthIndex> LengthIndex::Read(const std::string& path) {
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "cannot stat", path);
  }
  if (!S_ISREG(info.st_mode) ||
      info.st_size < static_cast<int64_t>(sizeof(IndexHeader))) {
    return Unsound("it is no file, or too short");
  }
  // Its sizes are checked before as much memory is taken.
  EVENSTEP_ASSIGN_OR_RETURN(const std::string start,
                            ReadRange(fd.get(), path, 0, sizeof(IndexHeader)));
  IndexHeader header;
  std::memcpy(&header, start.data(), sizeof(header));
  EVENSTEP_RETURN_IF_ERROR(
      CheckSizes(header, static_cast<size_t>(info.st_size)));
  EVENSTEP_ASSIGN_OR_RETURN(std::string bytes,
                            ReadRange(fd.get(), path, 0, info.st_size));
  return FromBytes(std::move(bytes));
}

absl::Status LengthIndex::Open(absl::string_view bytes) {
  if (bytes.size() < sizeof(IndexHeader)) return Unsound("it is too short");
  header_ = reinterpret_cast<const IndexHeader*>(bytes.data());
  EVENSTEP_RETURN_IF_ERROR(CheckSizes(*header_, bytes.size()));
  if (Checksum(bytes) != header_->checksum) {
    return Unsound("its checksum does not match");
  }
  const char* at = bytes.data() + sizeof(IndexHeader);
  documents_ = reinterpret_cast<const IndexedDocument*>(at);
  at += header_->num_documents * sizeof(IndexedDocument);
  files_ = reinterpret_cast<const IndexedFile*>(at);
  at += header_->num_files * sizeof(IndexedFile);
  details_ = reinterpret_cast<const int64_t*>(at);
  at += header_->num_details * sizeof(int64_t);
  names_ = absl::string_view(at, header_->names_bytes);
  notes_ = absl::string_view(at + header_->names_bytes, header_->notes_bytes);
  return CheckRows();
}

absl::Status LengthIndex::CheckRows() const {
  for (int64_t i = 0; i < header_->num_files; ++i) {
    const IndexedFile& file = files_[i];
    if (file.name_offset < 0 || file.name_bytes < 0 ||
        file.name_offset > header_->names_bytes ||
        file.name_bytes > header_->names_bytes - file.name_offset) {
      return Unsound(absl::StrCat("file ", i, " has no name"));
    }
  }
  return CheckDocuments();
}

absl::Status LengthIndex::CheckDocuments() const {
  int64_t details_end = 0;
  for (int64_t i = 0; i < header_->num_documents; ++i) {
    if (!IsSound(documents_[i], header_->num_files)) {
      return Unsound(absl::StrCat("document ", i, " is out of range"));
    }
    if (documents_[i].details_end < details_end ||
        documents_[i].details_end > header_->num_details) {
      return Unsound(absl::StrCat("document ", i, " has details up to ",
                                  documents_[i].details_end, " after ",
                                  details_end, " of ", header_->num_details));
    }
    details_end = documents_[i].details_end;
  }
  return absl::OkStatus();
}

int64_t LengthIndex::TrainedTokens(int64_t document, int64_t length) const {
  const IndexedDocument& row = documents_[document];
  if (length >= row.num_tokens) return row.num_trained;
  // Without a mask all but the first token has a loss.
  if (row.num_trained == row.num_tokens - 1) {
    return std::max<int64_t>(length, 1) - 1;
  }
  return TokensInRuns(details(document), length);
}

}  // namespace evenstep::data
