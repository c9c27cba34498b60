#include "data/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/foreign_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace evenstep::data {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;
// How much is written before the disk has to have it, so that progress is that
// of the disk.
constexpr size_t kSyncedBytes = 16 << 20;
constexpr char kMetadataKey[] = "__metadata__";

// Bytes of one element; 0 for an unknown type.
int64_t ElementBytes(absl::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

// Bytes that a tensor must have; -1 for an unknown type, a negative size or a
// product beyond 63 bits.
int64_t ExpectedBytes(const TensorBytes& tensor) {
  int64_t bytes = ElementBytes(tensor.dtype);
  if (bytes == 0) return -1;
  for (int64_t size : tensor.shape) {
    if (size < 0) return -1;
    if (size > 0 && bytes > std::numeric_limits<int64_t>::max() / size) {
      return -1;
    }
    bytes *= size;
  }
  return bytes;
}

std::string Describe(const TensorBytes& tensor) {
  return absl::StrCat("tensor '", tensor.name, "' (", tensor.dtype, " [",
                      absl::StrJoin(tensor.shape, ", "), "])");
}

absl::Status CheckForWriting(const std::vector<TensorBytes>& tensors) {
  std::set<std::string> names = {kMetadataKey};
  for (const TensorBytes& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors are named '", tensor.name, "'"));
    }
    const int64_t expected = ExpectedBytes(tensor);
    if (expected != static_cast<int64_t>(tensor.bytes.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(tensor), " needs ", expected, " bytes, got ",
                       tensor.bytes.size()));
    }
  }
  return absl::OkStatus();
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes[i] = static_cast<char>(value >> (8 * i));
  }
  return bytes;
}

uint64_t FromLittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i]))
             << (8 * i);
  }
  return value;
}

std::string MakeHeader(const std::vector<TensorBytes>& tensors,
                       const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  size_t offset = 0;
  for (const TensorBytes& tensor : tensors) {
    const size_t end = offset + tensor.bytes.size();
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

// One parsed header entry with its place in the data.
struct Entry {
  TensorBytes tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::StatusOr<Entry> ParseEntry(const std::string& name, const Json& json) {
  const auto malformed = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("tensor '", name, "': ", what));
  };
  if (!json.is_object() || json.size() != 3) {
    return malformed("needs dtype, shape and data_offsets, nothing else");
  }
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string() || shape == json.end() ||
      !shape->is_array() || offsets == json.end() || !offsets->is_array() ||
      offsets->size() != 2) {
    return malformed(
        "dtype, shape or data_offsets is missing or of a wrong "
        "type");
  }
  Entry entry;
  entry.tensor.name = name;
  entry.tensor.dtype = dtype->get<std::string>();
  for (const Json& size : *shape) {
    if (!size.is_number_unsigned()) return malformed("a size is not a count");
    entry.tensor.shape.push_back(size.get<int64_t>());
  }
  if (!(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return malformed("an offset is not a count");
  }
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  return entry;
}

absl::Status ParseMetadata(const Json& json, SafetensorsMetadata* metadata) {
  if (!json.is_object()) {
    return absl::DataLossError("__metadata__ is not an object");
  }
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return absl::DataLossError(
          absl::StrCat("__metadata__ '", key, "' is not a string"));
    }
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ParseHeader(absl::string_view text, SafetensorsMetadata* metadata,
                         std::vector<Entry>* entries) {
  const absl::StatusOr<Json> parsed = ParseStrictJson(text);
  if (!parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat("its header: ", parsed.status().message()));
  }
  const Json& header = *parsed;
  if (!header.is_object()) {
    return absl::DataLossError("the header is not a JSON object");
  }
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadataKey) {
      EVENSTEP_RETURN_IF_ERROR(ParseMetadata(json, metadata));
      continue;
    }
    EVENSTEP_ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, json));
    entries->push_back(std::move(entry));
  }
  std::sort(entries->begin(), entries->end(),
            [](const Entry& a, const Entry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  return absl::OkStatus();
}

constexpr char kCutShort[] = "the file is cut short; copy or download it again";

// Tensors must cover the data exactly, in order, each with the bytes of its
// shape.
absl::Status CheckPlaces(uint64_t data_bytes,
                         const std::vector<Entry>& entries) {
  uint64_t expected_begin = 0;
  for (const Entry& entry : entries) {
    if (ElementBytes(entry.tensor.dtype) == 0) {
      return absl::DataLossError(
          absl::StrCat(Describe(entry.tensor),
                       " is of an unknown type; known: F64, F32, F16, BF16, "
                       "I64, I32, I8, U8, BOOL"));
    }
    const int64_t bytes = ExpectedBytes(entry.tensor);
    if (bytes < 0) {
      return absl::DataLossError(absl::StrCat(
          Describe(entry.tensor), " has more bytes than 63 bits can count"));
    }
    if (entry.begin != expected_begin || entry.end < entry.begin ||
        entry.end - entry.begin != static_cast<uint64_t>(bytes)) {
      return absl::DataLossError(
          absl::StrCat(Describe(entry.tensor), " is at bytes ", entry.begin,
                       " to ", entry.end, " of the data; expected ", bytes,
                       " bytes from ", expected_begin));
    }
    expected_begin = entry.end;
  }
  if (expected_begin == data_bytes) return absl::OkStatus();
  const std::string sizes =
      absl::StrCat("its tensors take ", expected_begin, " bytes, the file has ",
                   data_bytes, " bytes of data");
  if (data_bytes > expected_begin) return absl::DataLossError(sizes);
  return absl::DataLossError(absl::StrCat(sizes, ": ", kCutShort));
}

// What bytes are that are no safetensors file: a sentence to put behind a
// reason, or nothing.
std::string ForeignText(absl::string_view head) {
  const std::string foreign = DescribeForeignFile(head);
  if (foreign.empty() || absl::StrContains(foreign, "safetensors")) return "";
  const bool is_model = absl::StrContains(foreign, "PyTorch") ||
                        absl::StrContains(foreign, "pickle") ||
                        absl::StrContains(foreign, "GGUF");
  return absl::StrCat("it is not a safetensors file but ", foreign,
                      is_model
                          ? "; load it where it is from, and save it with "
                            "save_pretrained(FOLDER, safe_serialization=True)"
                          : "");
}

// Bytes of the header, after those of its length. `head`: the file's first
// bytes, kForeignFileBytes of them if it has so many.
absl::StatusOr<uint64_t> HeaderBytes(absl::string_view head,
                                     uint64_t file_bytes) {
  if (head.empty()) return absl::DataLossError("the file is empty");
  if (head.size() < kLengthBytes) {
    return absl::DataLossError(absl::StrCat("only ", head.size(),
                                            " bytes, the header's length "
                                            "alone takes ",
                                            kLengthBytes, ": ", kCutShort));
  }
  const uint64_t header_bytes = FromLittleEndian(head);
  if (header_bytes <= static_cast<uint64_t>(kMaxSafetensorsHeaderBytes) &&
      header_bytes <= file_bytes - kLengthBytes) {
    return header_bytes;
  }
  const std::string foreign = ForeignText(head);
  if (!foreign.empty()) return absl::DataLossError(foreign);
  const std::string sizes = absl::StrCat("a header of ", header_bytes,
                                         " bytes in a file of ", file_bytes);
  if (header_bytes <= static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return absl::DataLossError(absl::StrCat(sizes, ": ", kCutShort));
  }
  return absl::DataLossError(absl::StrCat(sizes, "; at most ",
                                          kMaxSafetensorsHeaderBytes,
                                          " are read: it is not a safetensors "
                                          "file"));
}

absl::Status ParseInto(absl::string_view bytes, SafetensorsFile* file) {
  EVENSTEP_ASSIGN_OR_RETURN(
      const uint64_t header_bytes,
      HeaderBytes(bytes.substr(0, kForeignFileBytes), bytes.size()));
  std::vector<Entry> entries;
  EVENSTEP_RETURN_IF_ERROR(ParseHeader(bytes.substr(kLengthBytes, header_bytes),
                                       &file->metadata, &entries));
  const absl::string_view data = bytes.substr(kLengthBytes + header_bytes);
  EVENSTEP_RETURN_IF_ERROR(CheckPlaces(data.size(), entries));
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.substr(entry.begin, entry.end - entry.begin);
    file->tensors.push_back(std::move(entry.tensor));
  }
  return absl::OkStatus();
}

// As many bytes from where `in` stands; fewer at the end of the file.
std::string ReadBytes(std::ifstream* in, uint64_t count) {
  std::string bytes(count, '\0');
  in->read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(in->gcount()));
  return bytes;
}

// A file that can be read; `path` names it in the sentence.
absl::StatusOr<std::ifstream> OpenFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (status.type() == std::filesystem::file_type::directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": a folder, where a safetensors file is wanted"));
  }
  std::ifstream in(path, std::ios::binary);
  if (in) return in;
  return ErrnoStatus(errno, "cannot open", path);
}

absl::StatusOr<SafetensorsHeader> ParsePlaces(std::ifstream* in,
                                              uint64_t file_bytes) {
  EVENSTEP_ASSIGN_OR_RETURN(
      const uint64_t header_bytes,
      HeaderBytes(ReadBytes(in, kForeignFileBytes), file_bytes));
  in->clear();  // of a file that is shorter than that
  in->seekg(kLengthBytes);
  SafetensorsHeader header;
  std::vector<Entry> entries;
  EVENSTEP_RETURN_IF_ERROR(
      ParseHeader(ReadBytes(in, header_bytes), &header.metadata, &entries));
  const uint64_t start = kLengthBytes + header_bytes;
  EVENSTEP_RETURN_IF_ERROR(CheckPlaces(file_bytes - start, entries));
  for (Entry& entry : entries) {
    header.places.push_back({std::move(entry.tensor.name),
                             std::move(entry.tensor.dtype),
                             std::move(entry.tensor.shape),
                             static_cast<int64_t>(start + entry.begin),
                             static_cast<int64_t>(entry.end - entry.begin)});
  }
  return header;
}

}  // namespace

const TensorBytes* SafetensorsFile::Find(absl::string_view name) const {
  for (const TensorBytes& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const TensorPlace* SafetensorsHeader::Find(absl::string_view name) const {
  for (const TensorPlace& place : places) {
    if (place.name == name) return &place;
  }
  return nullptr;
}

absl::Status WriteSafetensors(const std::string& path,
                              std::vector<TensorBytes> tensors,
                              const SafetensorsMetadata& metadata,
                              const WriteProgress& on_written) {
  EVENSTEP_RETURN_IF_ERROR(CheckForWriting(tensors));
  // Wide types first keeps every tensor aligned to its element.
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorBytes& a, const TensorBytes& b) {
                     return ElementBytes(a.dtype) > ElementBytes(b.dtype);
                   });
  const std::string header = MakeHeader(tensors, metadata);
  EVENSTEP_ASSIGN_OR_RETURN(AtomicFileWriter writer,
                            AtomicFileWriter::Open(path));
  EVENSTEP_RETURN_IF_ERROR(writer.Append(LittleEndian(header.size()) + header));
  size_t written = kLengthBytes + header.size();
  size_t synced = written;
  if (on_written) on_written(static_cast<int64_t>(written));
  for (const TensorBytes& tensor : tensors) {
    for (size_t at = 0; at < tensor.bytes.size(); at += kSyncedBytes) {
      const absl::string_view part = tensor.bytes.substr(at, kSyncedBytes);
      EVENSTEP_RETURN_IF_ERROR(writer.Append(part));
      written += part.size();
      if (written - synced < kSyncedBytes) continue;
      EVENSTEP_RETURN_IF_ERROR(writer.Sync());
      synced = written;
      if (on_written) on_written(static_cast<int64_t>(written));
    }
  }
  return writer.Commit();
}

absl::StatusOr<SafetensorsFile> ParseSafetensors(std::string bytes,
                                                 absl::string_view name) {
  SafetensorsFile file;
  file.storage = std::make_unique<const std::string>(std::move(bytes));
  const absl::Status status = ParseInto(*file.storage, &file);
  if (status.ok()) return file;
  return absl::DataLossError(absl::StrCat(name, ": ", status.message()));
}

absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(std::ifstream in, OpenFile(path));
  std::string bytes((std::istreambuf_iterator<char>(in)),
                    std::istreambuf_iterator<char>());
  if (in.bad()) return absl::DataLossError(absl::StrCat("cannot read ", path));
  return ParseSafetensors(std::move(bytes), path);
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(
    const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(std::ifstream in, OpenFile(path));
  in.seekg(0, std::ios::end);
  const auto file_bytes = static_cast<uint64_t>(in.tellg());
  in.seekg(0);
  auto header = ParsePlaces(&in, file_bytes);
  if (header.ok()) return header;
  return absl::DataLossError(
      absl::StrCat(path, ": ", header.status().message()));
}

absl::StatusOr<std::vector<TensorPlace>> ReadSafetensorsPlaces(
    const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(SafetensorsHeader header,
                            ReadSafetensorsHeader(path));
  return std::move(header.places);
}

}  // namespace evenstep::data
