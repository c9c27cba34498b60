#include "data/megatron/megatron_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"

namespace evenstep::data {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;
// Megatron's own tools take two bytes below this.
constexpr int64_t kTwoByteVocab = 65500;

void AppendNumber(uint64_t value, int num_bytes, std::string* out) {
  for (int i = 0; i < num_bytes; ++i, value >>= 8) {
    out->push_back(static_cast<char>(value & 0xff));
  }
}

absl::Status WriteAll(int fd, absl::string_view bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

int64_t LargestOf(MegatronType type) {
  return MegatronTokenBytes(type) == 2 ? 0xffff
                                       : std::numeric_limits<int32_t>::max();
}

}  // namespace

MegatronType MegatronTypeFor(int64_t vocab) {
  return vocab < kTwoByteVocab ? MegatronType::kUint16 : MegatronType::kInt32;
}

absl::StatusOr<MegatronWriter> MegatronWriter::Create(const std::string& prefix,
                                                      MegatronType type) {
  const std::string path = prefix + ".bin.partial";
  UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot write", path);
  return MegatronWriter(prefix, type, std::move(fd));
}

MegatronWriter::MegatronWriter(std::string prefix, MegatronType type,
                               UniqueFd fd)
    : prefix_(std::move(prefix)), type_(type), fd_(std::move(fd)) {}

MegatronWriter::~MegatronWriter() {
  if (fd_.valid()) unlink(PartialPath().c_str());
}

absl::Status MegatronWriter::AddDocument(absl::Span<const int32_t> tokens) {
  if (tokens.empty() || tokens.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a document of ", tokens.size(), " tokens"));
  }
  const auto token_bytes = static_cast<int>(MegatronTokenBytes(type_));
  for (const int32_t token : tokens) {
    if (token < 0 || token > LargestOf(type_)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", token, " does not fit ", token_bytes, " bytes"));
    }
    AppendNumber(static_cast<uint64_t>(token), token_bytes, &buffer_);
  }
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  num_tokens_ += static_cast<int64_t>(tokens.size());
  return buffer_.size() < kFlushBytes ? absl::OkStatus() : Flush();
}

absl::Status MegatronWriter::Flush() {
  EVENSTEP_RETURN_IF_ERROR(WriteAll(fd_.get(), buffer_, PartialPath()));
  buffer_.clear();
  return absl::OkStatus();
}

std::string MegatronWriter::IndexBytes() const {
  std::string out("MMIDIDX\0\0", 9);
  AppendNumber(1, 8, &out);
  AppendNumber(static_cast<uint64_t>(type_), 1, &out);
  AppendNumber(lengths_.size(), 8, &out);
  AppendNumber(lengths_.size() + 1, 8, &out);
  for (const int32_t length : lengths_) AppendNumber(length, 4, &out);
  uint64_t offset = 0;
  for (const int32_t length : lengths_) {
    AppendNumber(offset, 8, &out);
    offset += static_cast<uint64_t>(length) * MegatronTokenBytes(type_);
  }
  for (size_t i = 0; i <= lengths_.size(); ++i) AppendNumber(i, 8, &out);
  return out;
}

absl::Status MegatronWriter::Finish() && {
  EVENSTEP_RETURN_IF_ERROR(Flush());
  if (fsync(fd_.get()) != 0) {
    return ErrnoStatus(errno, "cannot fsync", PartialPath());
  }
  const std::string path = prefix_ + ".bin";
  if (rename(PartialPath().c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, "cannot rename to", path);
  }
  fd_ = UniqueFd();
  return WriteFileAtomically(prefix_ + ".idx", IndexBytes());
}

}  // namespace evenstep::data
