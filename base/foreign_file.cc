#include "base/foreign_file.h"

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace evenstep {
namespace {

struct Format {
  absl::string_view magic;
  const char* description;
};

// The first row that matches counts.
constexpr Format kFormats[] = {
    {"version https://git-lfs.",
     "a Git LFS pointer, which only names the real file; run `git lfs pull` in "
     "the repository that it is from"},
    {"GGUF", "a GGUF file (llama.cpp)"},
    {"PAR1", "a Parquet file"},
    {"ARROW1", "an Arrow file"},
    {"MMIDIDX", "the index (.idx) of Megatron data"},
    {absl::string_view("\x93NUMPY", 6), "a NumPy file"},
    {absl::string_view("\x89HDF", 4), "an HDF5 file"},
    {absl::string_view("\x1f\x8b", 2), "a gzip file"},
    {absl::string_view("\x28\xb5\x2f\xfd", 4), "a Zstandard file"},
    {absl::string_view("\xfd"
                       "7zXZ",
                       5),
     "an xz file"},
    {"BZh", "a bzip2 file"},
    {absl::string_view("PK\x03\x04", 4),
     "a zip archive, as PyTorch's checkpoints (.bin, .pt, .pth) are"},
    {absl::string_view("\x80\x02", 2), "a Python pickle"},
    {absl::string_view("\x80\x03", 2), "a Python pickle"},
    {absl::string_view("\x80\x04", 2), "a Python pickle"},
    {absl::string_view("\x80\x05", 2), "a Python pickle"},
    {"SQLite format 3", "an SQLite database"},
    {absl::string_view("\x7f"
                       "ELF",
                       4),
     "a program or library (ELF)"},
    {"%PDF", "a PDF"},
    {absl::string_view("\x89PNG", 4), "a PNG picture"},
    {absl::string_view("\xff\xd8\xff", 3), "a JPEG picture"},
    {absl::string_view("\xff\xfe", 2), "text in UTF-16; save it as UTF-8"},
    {absl::string_view("\xfe\xff", 2), "text in UTF-16; save it as UTF-8"},
};

bool IsHtml(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  return absl::StartsWithIgnoreCase(text, "<!doctype html") ||
         absl::StartsWithIgnoreCase(text, "<html");
}

// Eight bytes of a small little-endian length, then a JSON object.
bool IsSafetensors(absl::string_view bytes) {
  return bytes.size() > 9 &&
         bytes.substr(4, 4) == absl::string_view("\0\0\0\0", 4) &&
         bytes[8] == '{' && bytes[9] == '"';
}

}  // namespace

std::string DescribeForeignFile(absl::string_view first_bytes) {
  // First: a header's length may look like two bytes of another format.
  if (IsSafetensors(first_bytes)) return "a safetensors file";
  for (const Format& format : kFormats) {
    if (absl::StartsWith(first_bytes, format.magic)) return format.description;
  }
  if (IsHtml(first_bytes)) {
    return "an HTML page, as a download leaves that was refused or redirected";
  }
  return "";
}

std::string DescribeForeignFileAt(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char bytes[kForeignFileBytes];
  in.read(bytes, sizeof(bytes));
  return DescribeForeignFile({bytes, static_cast<size_t>(in.gcount())});
}

}  // namespace evenstep
