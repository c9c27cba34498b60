#include "data/index/length_index.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace evenstep::data {
namespace {

static_assert(sizeof(IndexedDocument) == 56 && sizeof(IndexedFile) == 32 &&
                  sizeof(IndexHeader) == 104,
              "rows have no holes");

// Bounds that keep the arithmetic on sizes within 63 bits.
constexpr int64_t kMaxRows = int64_t{1} << 40;

uint64_t Checksum(absl::string_view bytes) {
  constexpr size_t kFrom = offsetof(IndexHeader, checksum);
  Fnv1a64 hash;
  hash.AddBytes(bytes.substr(0, kFrom));
  hash.AddBytes(bytes.substr(kFrom + sizeof(uint64_t)));
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
    return Unsound("it is of another version");
  }
  if (!IsCount(header.num_documents) || !IsCount(header.num_files) ||
      !IsCount(header.names_bytes) || !IsCount(header.notes_bytes)) {
    return Unsound("a count is out of range");
  }
  const size_t expected = sizeof(IndexHeader) +
                          header.num_documents * sizeof(IndexedDocument) +
                          header.num_files * sizeof(IndexedFile) +
                          header.names_bytes + header.notes_bytes;
  if (bytes == expected) return absl::OkStatus();
  return Unsound(absl::StrCat(bytes, " bytes instead of ", expected));
}

}  // namespace

std::string SerializeIndex(IndexContent content) {
  IndexHeader& header = content.header;
  header.num_documents = static_cast<int64_t>(content.documents.size());
  header.num_files = static_cast<int64_t>(content.files.size());
  header.names_bytes = static_cast<int64_t>(content.names.size());
  header.notes_bytes = static_cast<int64_t>(content.notes.size());
  header.longest = 0;
  header.total_tokens = 0;
  for (const IndexedDocument& document : content.documents) {
    header.longest = std::max(header.longest, document.length);
    header.total_tokens += document.length;
  }
  header.checksum = 0;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  AppendRows(content.documents, &bytes);
  AppendRows(content.files, &bytes);
  absl::StrAppend(&bytes, content.names, content.notes);
  header.checksum = Checksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

absl::StatusOr<LengthIndex> LengthIndex::FromBytes(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  LengthIndex index;
  index.owner_ = owner;
  EVENSTEP_RETURN_IF_ERROR(index.Open(*owner));
  return index;
}

absl::StatusOr<LengthIndex> LengthIndex::Map(const std::string& path) {
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "cannot stat", path);
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (!S_ISREG(info.st_mode) || size < sizeof(IndexHeader)) {
    return Unsound("it is no file, or too short");
  }
  void* const address =
      mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return ErrnoStatus(errno, "cannot map", path);
  LengthIndex index;
  index.owner_ = std::shared_ptr<const void>(
      address, [size](const void* at) { munmap(const_cast<void*>(at), size); });
  EVENSTEP_RETURN_IF_ERROR(
      index.Open(absl::string_view(static_cast<const char*>(address), size)));
  return index;
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
  for (int64_t i = 0; i < header_->num_documents; ++i) {
    if (!IsSound(documents_[i])) {
      return Unsound(absl::StrCat("document ", i, " is out of range"));
    }
  }
  return absl::OkStatus();
}

bool LengthIndex::IsSound(const IndexedDocument& document) const {
  if (document.file < 0 || document.file >= header_->num_files) return false;
  const int64_t file_bytes = files_[document.file].bytes;
  return document.offset >= 0 && document.offset <= file_bytes &&
         document.bytes >= 1 &&
         document.bytes <= file_bytes - document.offset &&
         document.length >= 1 && document.length <= document.num_tokens &&
         document.num_trained >= 0 && document.num_trained <= document.length;
}

DatasetSummary LengthIndex::summary() const {
  DatasetSummary summary;
  summary.num_samples = header_->num_documents;
  summary.num_too_long = header_->num_too_long;
  summary.num_bad = header_->num_bad;
  summary.num_truncated = header_->num_truncated;
  summary.longest = header_->longest;
  summary.total_tokens = header_->total_tokens;
  summary.content_key = header_->content_key;
  return summary;
}

}  // namespace evenstep::data
