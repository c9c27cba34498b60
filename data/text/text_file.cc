#include "data/text/text_file.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "data/text/foreign_json.h"

namespace evenstep::data {
namespace {

// Enough for every signature below, tar's among them.
constexpr size_t kHeadBytes = 4096;
// Of a .json file, to find the keys of its first record.
constexpr size_t kJsonHeadBytes = size_t{1} << 20;
constexpr size_t kMostCharacterBytes = 4;

// Most formats begin with letters that prose may begin with too, so bytes that
// text does not have must follow, unless `always`.
struct Signature {
  size_t offset;
  absl::string_view bytes;
  const char* reason;
  bool always = false;
};

constexpr char kImage[] = "an image: not read";
constexpr char kAudio[] = "audio or video: not read";
constexpr char kProgram[] = "a program or library: not read";
constexpr char kArchive[] = "an archive: not read; unpack it";
constexpr char kPacked[] =
    "compressed, but neither gzip nor Zstandard: not read; unpack it";

const Signature kSignatures[] = {
    {0, "version https://git-lfs.github.com/spec/v1\n",
     "a Git LFS pointer, not the data itself; run `git lfs pull`", true},
    {0, "%PDF-", "a PDF: not read; extract its text first", true},
    {0, "PAR1", "Parquet: not read; convert it to JSONL"},
    {0, "ARROW1", "Arrow: not read; convert it to JSONL"},
    {0, "ORC", "ORC: not read; convert it to JSONL"},
    {0, "Obj\x01", "Avro: not read; convert it to JSONL"},
    {0, "SQLite format 3", "an SQLite database: not read; convert it to JSONL"},
    {0, "\x89HDF\r\n", "HDF5: not read; convert it to JSONL"},
    {0, "\x93NUMPY", "a NumPy array: not read; convert it to JSONL"},
    {0, "MMIDIDX", "a Megatron index; its source is megatron:PREFIX"},
    {0, "GGUF", "weights (GGUF): not read"},
    {0, "\x89PNG", kImage},
    {0, "\xff\xd8\xff", kImage},
    {0, "GIF8", kImage},
    {0, absl::string_view("II*\0", 4), kImage},
    {0, absl::string_view("MM\0*", 4), kImage},
    {8, "WEBP", kImage},
    {8, "WAVE", kAudio},
    {4, "ftyp", kAudio},
    {0, "OggS", kAudio},
    {0, "fLaC", kAudio},
    {0, "ID3", kAudio},
    {0, "\xd0\xcf\x11\xe0",
     "an Office document: not read; extract its text first"},
    {0, "PK\x03\x04",
     "a zip archive (or .docx, .npz, .pt): not read; unpack or convert it"},
    {257, "ustar", "a tar archive: not read; unpack it"},
    {0, "7z\xbc\xaf", kArchive},
    {0, "Rar!", kArchive},
    {0, "BZh", kPacked},
    {0,
     "\xfd"
     "7zXZ",
     kPacked},
    {0, "\x04\x22\x4d\x18", kPacked},
    {0,
     "\x7f"
     "ELF",
     kProgram},
    {0, absl::string_view("\0asm", 4), kProgram},
    {0, "\xca\xfe\xba\xbe", kProgram},
};

// A character that is cut at the end of `head` may be sound.
bool HasBinaryBytes(absl::string_view head) {
  const size_t at = FirstInvalidUtf8(head);
  return head.find('\0') != absl::string_view::npos ||
         (at != absl::string_view::npos &&
          head.size() - at >= kMostCharacterBytes);
}

// The header's length in 8 bytes, then JSON.
bool IsSafetensors(absl::string_view head) {
  if (head.size() < 10 || head[8] != '{' || head[7] != 0) return false;
  return head[9] == '"' || head[9] == '}' || head[9] == ' ';
}

// Python's pickles of protocol 2 to 5, torch's old files among them.
bool IsPickle(absl::string_view head) {
  return head.size() >= 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Whether bytes that could follow would make it a character.
bool MayBeCompleted(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0xC2 || first > 0xF4) return false;
  const size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() >= size) return false;
  return std::all_of(text.begin() + 1, text.end(), IsContinuation);
}

std::string NulReason(int64_t position) {
  return absl::StrCat("a NUL at byte ", position,
                      ": binary data, or UTF-16; text is UTF-8");
}

std::string Utf8Reason(int64_t position, char byte) {
  return absl::StrFormat(
      "byte %d is 0x%02x, which is not UTF-8 (Latin-1?); convert the file, "
      "such as with `iconv -f latin1 -t utf-8`",
      position, static_cast<unsigned char>(byte));
}

// Whether it is JSON with something in it, by how it begins.
bool BeginsAsJson(absl::string_view head) {
  absl::ConsumePrefix(&head, kUtf8Mark);
  head = absl::StripLeadingAsciiWhitespace(head);
  return absl::StartsWith(head, "{") || absl::StartsWith(head, "[");
}

TextLayout LayoutOfJson(absl::string_view head) {
  if (HoldsRecords(ShapeOfJson(head))) return TextLayout::kValues;
  return BeginsAsJson(head) ? TextLayout::kJson : TextLayout::kProse;
}

// The name in lower case, without the ending of a compressed file.
std::string PlainName(absl::string_view name) {
  std::string plain = absl::AsciiStrToLower(name);
  for (const absl::string_view ending : {".gz", ".zst", ".zstd"}) {
    if (absl::EndsWith(plain, ending)) {
      plain.resize(plain.size() - ending.size());
      break;
    }
  }
  return plain;
}

absl::StatusOr<std::string> ReadHead(const std::string& path, size_t bytes) {
  std::string head;
  const absl::Status read =
      ReadUnpacked(path, kMaxUnpackedBytes, [&](absl::string_view some) {
        head.append(some.data(), std::min(some.size(), bytes - head.size()));
        return head.size() < bytes;
      });
  if (!read.ok()) return read;
  return head;
}

Packing PackingOfFile(const std::string& path) {
  // Four bytes of it are enough, and fewer are no signature.
  std::string head(kMostCharacterBytes, '\0');
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return Packing::kNone;
  head.resize(std::fread(head.data(), 1, head.size(), file));
  std::fclose(file);
  return PackingOf(head);
}

}  // namespace

TextLayout RecordLayoutOf(absl::string_view name) {
  return absl::EndsWith(PlainName(name), ".json") ? TextLayout::kValues
                                                  : TextLayout::kLines;
}

absl::StatusOr<JsonShape> ShapeOfFile(const std::string& path) {
  const auto head = ReadHead(path, kJsonHeadBytes);
  if (!head.ok()) return head.status();
  return ShapeOfJson(*head);
}

TextFile LookAtFile(const std::string& path, absl::string_view name) {
  const std::string plain = PlainName(name);
  const bool is_json = absl::EndsWith(plain, ".json");
  TextFile file;
  file.packing = PackingOfFile(path);
  const auto head = ReadHead(path, is_json ? kJsonHeadBytes : kHeadBytes);
  if (!head.ok()) {
    file.problem = std::string(head.status().message());
    return file;
  }
  const absl::string_view start =
      absl::string_view(*head).substr(0, kHeadBytes);
  file.problem = NotTextReason(start);
  if (absl::StartsWith(*head, kUtf8Mark)) file.mark_bytes = kUtf8Mark.size();
  if (absl::EndsWith(plain, ".jsonl") || absl::EndsWith(plain, ".ndjson")) {
    file.layout = TextLayout::kLines;
  } else if (is_json) {
    file.layout = LayoutOfJson(*head);
  }
  // Of records, those without one are sound.
  const size_t nul = start.find('\0');
  if (file.problem.empty() && file.layout == TextLayout::kProse &&
      nul != absl::string_view::npos) {
    file.problem = NulReason(nul + 1);
  }
  return file;
}

std::string NotTextReason(absl::string_view head) {
  if (absl::StartsWith(head, "\xff\xfe") ||
      absl::StartsWith(head, "\xfe\xff")) {
    return "UTF-16 text; convert it, such as with `iconv -f utf-16 -t utf-8`";
  }
  const bool is_binary = HasBinaryBytes(head);
  for (const Signature& signature : kSignatures) {
    if ((is_binary || signature.always) && head.size() > signature.offset &&
        absl::StartsWith(head.substr(signature.offset), signature.bytes)) {
      return signature.reason;
    }
  }
  if (IsSafetensors(head)) return "safetensors weights: not read";
  if (IsPickle(head)) return "a Python pickle: not read; convert it to JSONL";
  if (PackingOf(head) != Packing::kNone) {
    return "compressed twice; unpack it once";
  }
  return "";
}

std::string CheckWholeText(absl::string_view text) {
  TextCheck check(/*contiguous=*/true);
  check.Add(text);
  return check.Finish();
}

void TextCheck::Add(absl::string_view block) {
  if (!problem_.empty()) return;
  const size_t nul = block.find('\0');
  if (nul != absl::string_view::npos) {
    problem_ = contiguous_ ? NulReason(offset_ + nul + 1)
                           : "a NUL byte: binary data; text is UTF-8";
    return;
  }
  if (!contiguous_) {
    kept_.clear();
    while (offset_ > 0 && !block.empty() && IsContinuation(block[0])) {
      block.remove_prefix(1);
    }
  }
  // With the start of a character that the block before ended with.
  std::string joined;
  absl::string_view text = block;
  if (!kept_.empty()) {
    joined = absl::StrCat(kept_, block);
    text = joined;
  }
  const int64_t text_at = offset_ - static_cast<int64_t>(kept_.size());
  offset_ += static_cast<int64_t>(block.size());
  kept_.clear();
  const size_t at = FirstInvalidUtf8(text);
  if (at == absl::string_view::npos) return;
  if (MayBeCompleted(text.substr(at))) {
    kept_ = std::string(text.substr(at));
  } else {
    problem_ = Utf8Reason(text_at + at + 1, text[at]);
  }
}

std::string TextCheck::Finish() {
  if (problem_.empty() && contiguous_ && !kept_.empty()) {
    problem_ = Utf8Reason(offset_ - kept_.size() + 1, kept_[0]);
  }
  return problem_;
}

}  // namespace evenstep::data
