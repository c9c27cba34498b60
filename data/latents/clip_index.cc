#include "data/latents/clip_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/index/content_hash.h"
#include "data/index/indexed_file.h"
#include "data/safetensors.h"

namespace evenstep::data {
namespace {

// Products of sides stay within 63 bits.
constexpr int64_t kMaxSide = int64_t{1} << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 40;
constexpr size_t kNumDetails = 7;

constexpr absl::string_view kTypeNames[] = {"F32", "F16", "BF16"};

std::optional<ValueType> ParseValueType(absl::string_view dtype) {
  for (const ValueType type :
       {ValueType::kF32, ValueType::kF16, ValueType::kBf16}) {
    if (dtype == ValueTypeName(type)) return type;
  }
  return std::nullopt;
}

// IEEE 754 half precision.
float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign == 0 ? value : -value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <typename Bits>
Bits BitsAt(absl::string_view bytes, int64_t index) {
  Bits bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(Bits), sizeof(Bits));
  return bits;
}

// Whether all values are finite. Infinities and NaN have all bits of
// `exponent`, and nothing else has.
template <typename Bits>
bool AllFinite(absl::string_view bytes, Bits exponent) {
  bool finite = true;
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(Bits));
  for (int64_t i = 0; i < count; ++i) {
    finite &= (BitsAt<Bits>(bytes, i) & exponent) != exponent;
  }
  return finite;
}

bool AllFinite(absl::string_view bytes, ValueType type) {
  switch (type) {
    case ValueType::kF32:
      return AllFinite<uint32_t>(bytes, 0x7f800000);
    case ValueType::kF16:
      return AllFinite<uint16_t>(bytes, 0x7c00);
    case ValueType::kBf16:
      return AllFinite<uint16_t>(bytes, 0x7f80);
  }
  return false;
}

int64_t FirstNotFinite(absl::string_view bytes, ValueType type) {
  int64_t index = 0;
  while (std::isfinite(ValueAt(bytes, type, index))) ++index;
  return index;
}

absl::string_view KindOfNotFinite(float value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "infinite" : "-infinite";
}

// Why a tensor is not a clip of any job; empty: it is one.
std::string ProblemOf(const TensorPlace& place) {
  const std::string form =
      absl::StrCat(place.dtype, " [", absl::StrJoin(place.shape, ", "), "]");
  if (!ParseValueType(place.dtype)) {
    return absl::StrCat(form, ": latents are F32, F16 or BF16");
  }
  if (place.shape.size() != 4) {
    return absl::StrCat(form, ": a clip is [frames, height, width, channels]");
  }
  for (const int64_t side : place.shape) {
    if (side < 1 || side > kMaxSide) {
      return absl::StrCat(form, ": a side is not in 1 to ", kMaxSide);
    }
  }
  return "";
}

class ClipScan {
 public:
  ClipScan(const FileList& list, IndexBuilder* builder)
      : list_(list), builder_(*builder) {}

  void Run() {
    int64_t total = 0;
    for (const ListedFile& file : list_.files) total += file.bytes;
    builder_.SetTotalBytes(total);
    for (const ListedFile& file : list_.files) {
      if (builder_.stopped()) return;
      builder_.AddFile(file);
      const absl::Status status = AddClips(file);
      if (!status.ok()) builder_.AddBad(file.name, status.message());
    }
  }

 private:
  absl::Status AddClips(const ListedFile& file) {
    if (!file.problem.empty()) return absl::UnavailableError(file.problem);
    const std::string path = absl::StrCat(list_.root, "/", file.name);
    EVENSTEP_ASSIGN_OR_RETURN(const std::vector<TensorPlace> places,
                              ReadSafetensorsPlaces(path));
    EVENSTEP_ASSIGN_OR_RETURN(RangeReader reader, RangeReader::Open(path));
    int64_t number = 0;
    for (const TensorPlace& place : places) {
      if (builder_.stopped()) break;
      AddClip(absl::StrCat(file.name, ":", place.name), ++number, place,
              &reader);
    }
    return absl::OkStatus();
  }

  void AddClip(const std::string& name, int64_t number,
               const TensorPlace& place, RangeReader* reader) {
    const std::string problem = ProblemOf(place);
    if (!problem.empty()) return builder_.AddBad(name, problem);
    const ValueType type = *ParseValueType(place.dtype);
    IndexedDocument row;
    row.number = number;
    row.offset = place.offset;
    row.bytes = place.bytes;
    row.num_tokens = place.shape[0] * place.shape[1] * place.shape[2];
    row.num_trained = row.num_tokens;
    const absl::Status read = ReadContent(place, type, reader, &row);
    if (!read.ok()) return builder_.AddBad(name, read.message());
    builder_.AddDocument(
        name, row,
        {place.shape[0], place.shape[1], place.shape[2], place.shape[3],
         static_cast<int64_t>(type), builder_.AddName(place.name),
         static_cast<int64_t>(place.name.size())});
  }

  absl::Status ReadContent(const TensorPlace& place, ValueType type,
                           RangeReader* reader, IndexedDocument* row) {
    const int64_t end = row->offset + row->bytes;
    hasher_.Reset();
    for (int64_t at = row->offset; at < end && !builder_.stopped();) {
      const int64_t bytes = std::min(RangeReader::kMostBytes, end - at);
      EVENSTEP_ASSIGN_OR_RETURN(const absl::string_view block,
                                reader->Read(at, bytes));
      builder_.Advance(bytes);
      if (!AllFinite(block, type)) {
        const int64_t index = FirstNotFinite(block, type);
        return NotFinite(place,
                         (at - row->offset) / BytesPerValue(type) + index,
                         ValueAt(block, type, index));
      }
      hasher_.Add(block);
      at += bytes;
    }
    row->hash = hasher_.value();
    return absl::OkStatus();
  }

  static absl::Status NotFinite(const TensorPlace& place, int64_t element,
                                float value) {
    const int64_t channel = element % place.shape[3];
    const int64_t pixel = element / place.shape[3];
    const int64_t column = pixel % place.shape[2];
    const int64_t row = pixel / place.shape[2];
    return absl::InvalidArgumentError(absl::StrCat(
        "element [", row / place.shape[1], ", ", row % place.shape[1], ", ",
        column, ", ", channel, "] is ", KindOfNotFinite(value)));
  }

  const FileList& list_;
  IndexBuilder& builder_;
  ContentHasher hasher_;
};

bool IsClip(const LengthIndex& index, int64_t row) {
  const absl::Span<const int64_t> details = index.details(row);
  if (details.size() != kNumDetails) return false;
  for (size_t i = 0; i < 4; ++i) {
    if (details[i] < 1 || details[i] > kMaxSide) return false;
  }
  const int64_t pixels = details[0] * details[1] * details[2];
  if (pixels > kMaxPixels || details[4] < 0 || details[4] > 2) {
    return false;
  }
  const auto names = static_cast<int64_t>(index.names().size());
  const IndexedDocument& document = index.document(row);
  return document.bytes ==
             pixels * details[3] *
                 BytesPerValue(static_cast<ValueType>(details[4])) &&
         details[5] >= 0 && details[5] <= names && details[6] >= 0 &&
         details[6] <= names - details[5];
}

}  // namespace

absl::string_view ValueTypeName(ValueType type) {
  return kTypeNames[static_cast<int>(type)];
}

int64_t BytesPerValue(ValueType type) {
  return type == ValueType::kF32 ? 4 : 2;
}

float ValueAt(absl::string_view bytes, ValueType type, int64_t index) {
  if (type == ValueType::kF32) return BitsAt<float>(bytes, index);
  const auto bits = BitsAt<uint16_t>(bytes, index);
  if (type == ValueType::kF16) return FromHalf(bits);
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

absl::Status ScanClips(const FileList& list, IndexBuilder* builder) {
  ClipScan(list, builder).Run();
  return absl::OkStatus();
}

absl::Status CheckClips(const LengthIndex& index) {
  for (int64_t row = 0; row < index.num_documents(); ++row) {
    if (!IsClip(index, row)) {
      return absl::DataLossError(
          absl::StrCat("length index is unsound: row ", row, " is not a clip"));
    }
  }
  return absl::OkStatus();
}

IndexedClip ClipOf(const LengthIndex& index, int64_t row) {
  const absl::Span<const int64_t> details = index.details(row);
  return {details[0],
          details[1],
          details[2],
          details[3],
          static_cast<ValueType>(details[4]),
          index.names().substr(details[5], details[6])};
}

}  // namespace evenstep::data
