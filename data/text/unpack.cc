#include "data/text/unpack.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace evenstep::data {
namespace {

constexpr absl::string_view kGzipMagic("\x1f\x8b\x08", 3);
constexpr absl::string_view kZstdMagic("\x28\xb5\x2f\xfd", 4);
constexpr size_t kBufferBytes = size_t{1} << 18;
// Of zlib: the largest window, and gzip's header.
constexpr int kGzipWindowBits = 15 + 16;

class GzipUnpacker : public Unpacker {
 public:
  GzipUnpacker(int64_t max_bytes, Take take)
      : Unpacker(max_bytes, std::move(take)), buffer_(kBufferBytes, '\0') {
    is_ready_ = inflateInit2(&stream_, kGzipWindowBits) == Z_OK;
  }
  ~GzipUnpacker() override {
    if (is_ready_) inflateEnd(&stream_);
  }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  absl::Status Add(absl::string_view packed) override {
    if (!is_ready_) return absl::InternalError("zlib cannot be started");
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    while (!stopped() && (stream_.avail_in > 0 || has_more_)) {
      EVENSTEP_RETURN_IF_ERROR(Step());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (stopped() || at_end_) return absl::OkStatus();
    return Damaged("ends early");
  }

 private:
  absl::Status Step() {
    // Members may follow each other; zeros may fill up a tape's block.
    if (at_end_) {
      if (*stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
        return absl::OkStatus();
      }
      if (inflateReset(&stream_) != Z_OK) return Damaged("is damaged");
      at_end_ = false;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_out = static_cast<uInt>(buffer_.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return Damaged("is damaged");
    }
    at_end_ = result == Z_STREAM_END;
    has_more_ = !at_end_ && stream_.avail_out == 0;
    return Hand(
        absl::string_view(buffer_.data(), buffer_.size() - stream_.avail_out));
  }

  z_stream stream_ = {};
  std::string buffer_;
  bool is_ready_ = false;
  bool at_end_ = false;    // of a member
  bool has_more_ = false;  // output that did not fit
};

class ZstdUnpacker : public Unpacker {
 public:
  ZstdUnpacker(int64_t max_bytes, Take take)
      : Unpacker(max_bytes, std::move(take)),
        stream_(ZSTD_createDStream()),
        buffer_(kBufferBytes, '\0') {}
  ~ZstdUnpacker() override { ZSTD_freeDStream(stream_); }
  ZstdUnpacker(const ZstdUnpacker&) = delete;
  ZstdUnpacker& operator=(const ZstdUnpacker&) = delete;

  absl::Status Add(absl::string_view packed) override {
    if (stream_ == nullptr) return absl::InternalError("zstd cannot start");
    ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
    bool has_more = false;
    while (!stopped() && (in.pos < in.size || has_more)) {
      ZSTD_outBuffer out = {buffer_.data(), buffer_.size(), 0};
      const size_t hint = ZSTD_decompressStream(stream_, &out, &in);
      if (ZSTD_isError(hint) != 0) {
        return Damaged(
            absl::StrCat("is damaged (", ZSTD_getErrorName(hint), ")"));
      }
      at_end_ = hint == 0;
      has_more = !at_end_ && out.pos == out.size;
      EVENSTEP_RETURN_IF_ERROR(
          Hand(absl::string_view(buffer_.data(), out.pos)));
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (stopped() || at_end_) return absl::OkStatus();
    return Damaged("ends early");
  }

 private:
  ZSTD_DStream* const stream_;
  std::string buffer_;
  bool at_end_ = false;  // of a frame
};

// The next bytes of a file; none at its end.
absl::StatusOr<absl::string_view> ReadSome(int fd, const std::string& path,
                                           std::string* buffer) {
  while (true) {
    const ssize_t got = read(fd, buffer->data(), buffer->size());
    if (got >= 0) {
      return absl::string_view(buffer->data(), static_cast<size_t>(got));
    }
    if (errno != EINTR) return ErrnoStatus(errno, "cannot read", path);
  }
}

}  // namespace

absl::Status Unpacker::Hand(absl::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(bytes.size()) > max_bytes_ - num_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("compressed data unpacks to more than ", max_bytes_,
                     " bytes; unpack it yourself and name the result"));
  }
  num_bytes_ += static_cast<int64_t>(bytes.size());
  stopped_ = !take_(bytes);
  return absl::OkStatus();
}

absl::Status Unpacker::Damaged(absl::string_view how) const {
  return absl::InvalidArgumentError(
      absl::StrCat("compressed data ", how, ", after ", num_bytes_,
                   " unpacked bytes; copy or make the file again"));
}

Packing PackingOf(absl::string_view head) {
  if (absl::StartsWith(head, kGzipMagic)) return Packing::kGzip;
  if (absl::StartsWith(head, kZstdMagic)) return Packing::kZstd;
  return Packing::kNone;
}

std::unique_ptr<Unpacker> MakeUnpacker(Packing packing, int64_t max_bytes,
                                       Unpacker::Take take) {
  if (packing == Packing::kZstd) {
    return std::make_unique<ZstdUnpacker>(max_bytes, std::move(take));
  }
  return std::make_unique<GzipUnpacker>(max_bytes, std::move(take));
}

absl::Status ReadUnpacked(const std::string& path, int64_t max_bytes,
                          const Unpacker::Take& take) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  std::string buffer(kBufferBytes, '\0');
  EVENSTEP_ASSIGN_OR_RETURN(absl::string_view some,
                            ReadSome(fd.get(), path, &buffer));
  const Packing packing = PackingOf(some);
  std::unique_ptr<Unpacker> unpacker;
  if (packing != Packing::kNone) {
    unpacker = MakeUnpacker(packing, max_bytes, take);
  }
  while (!some.empty()) {
    if (unpacker != nullptr) {
      EVENSTEP_RETURN_IF_ERROR(unpacker->Add(some));
      if (unpacker->stopped()) return absl::OkStatus();
    } else if (!take(some)) {
      return absl::OkStatus();
    }
    EVENSTEP_ASSIGN_OR_RETURN(some, ReadSome(fd.get(), path, &buffer));
  }
  return unpacker == nullptr ? absl::OkStatus() : unpacker->Finish();
}

absl::StatusOr<std::string> ReadWholeUnpacked(const std::string& path,
                                              int64_t max_bytes) {
  std::string text;
  bool fits = true;
  EVENSTEP_RETURN_IF_ERROR(
      ReadUnpacked(path, max_bytes, [&](absl::string_view bytes) {
        fits = static_cast<int64_t>(text.size() + bytes.size()) <= max_bytes;
        if (fits) text.append(bytes.data(), bytes.size());
        return fits;
      }));
  if (fits) return text;
  return absl::ResourceExhaustedError(absl::StrCat(
      "one document of more than ", max_bytes, " bytes; split the file"));
}

}  // namespace evenstep::data
