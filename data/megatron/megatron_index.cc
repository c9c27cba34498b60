#include "data/megatron/megatron_index.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/foreign_file.h"
#include "base/status_macros.h"

namespace evenstep::data {
namespace {

constexpr absl::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kVersion = 1;
// Bounds that keep the arithmetic on sizes within 63 bits.
constexpr uint64_t kMaxRows = uint64_t{1} << 40;
constexpr int64_t kLengthBytes = 4;
constexpr int64_t kOffsetBytes = 8;
constexpr int64_t kIndexBytes = 8;

// Arrays stand at odd addresses, so values are copied out.
template <typename Number>
Number At(absl::string_view bytes, int64_t offset) {
  Number value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

absl::Status Unsound(absl::string_view reason) {
  return absl::DataLossError(
      absl::StrCat("it is not a valid Megatron index: ", reason));
}

absl::Status CheckType(int code) {
  if (code < 1 || code > 8) {
    return Unsound(absl::StrCat("type code ", code, " is unknown"));
  }
  const auto type = static_cast<MegatronType>(code);
  if (type == MegatronType::kFloat32 || type == MegatronType::kFloat64) {
    return absl::InvalidArgumentError(
        absl::StrCat("its tokens have type code ", code, ", floating point"));
  }
  return absl::OkStatus();
}

bool IsTokenId(int64_t value) {
  return value >= 0 && value <= std::numeric_limits<int32_t>::max();
}

// Position of the first token for which `wanted` holds.
template <typename Number, typename Wanted>
int64_t FindToken(absl::string_view bytes, const Wanted& wanted) {
  size_t at = 0;
  while (!wanted(static_cast<int64_t>(At<Number>(bytes, at)))) {
    at += sizeof(Number);
  }
  return static_cast<int64_t>(at / sizeof(Number));
}

template <typename Number>
absl::StatusOr<LargestToken> Largest(absl::string_view bytes, int64_t first) {
  if (bytes.empty()) return LargestToken();
  auto least = std::numeric_limits<Number>::max();
  auto most = std::numeric_limits<Number>::min();
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    const auto value = At<Number>(bytes, static_cast<int64_t>(at));
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // Ids may be of one signed byte.
  // NOLINTNEXTLINE(bugprone-signed-char-misuse)
  const auto largest = static_cast<int64_t>(most);
  if (!IsTokenId(static_cast<int64_t>(least)) || !IsTokenId(largest)) {
    const int64_t at = FindToken<Number>(
        bytes, [](int64_t value) { return !IsTokenId(value); });
    return absl::OutOfRangeError(
        absl::StrCat("token ", first + at, " has id ",
                     static_cast<int64_t>(At<Number>(
                         bytes, at * static_cast<int64_t>(sizeof(Number)))),
                     ", which no vocabulary has"));
  }
  const int64_t at = FindToken<Number>(
      bytes, [largest](int64_t value) { return value == largest; });
  return LargestToken{static_cast<int32_t>(largest), first + at};
}

template <typename Number>
absl::Status AppendTokens(absl::string_view bytes,
                          std::vector<int32_t>* tokens) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    // What is negative is refused. NOLINTNEXTLINE(bugprone-signed-char-misuse)
    const auto value = static_cast<int64_t>(At<Number>(bytes, at));
    if (!IsTokenId(value)) {
      return absl::DataLossError(
          absl::StrCat("token ", at / sizeof(Number), " is ", value));
    }
    tokens->push_back(static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MegatronHeader> ParseMegatronHeader(absl::string_view bytes) {
  const std::string foreign =
      DescribeForeignFile(bytes.substr(0, kForeignFileBytes));
  if (!foreign.empty() && !absl::StrContains(foreign, "Megatron")) {
    return Unsound(absl::StrCat("it is ", foreign));
  }
  if (absl::StartsWith(bytes, "TNTIDX")) {
    return Unsound(
        "it is of fairseq's old format (TNTIDX); write it again with "
        "Megatron's "
        "preprocess_data.py or `evenstep data tokenize`");
  }
  if (static_cast<int64_t>(bytes.size()) < kMegatronHeaderBytes) {
    return Unsound(absl::StrCat("it has ", bytes.size(), " bytes, a header ",
                                kMegatronHeaderBytes));
  }
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return Unsound("it does not begin with MMIDIDX");
  }
  const auto version = At<uint64_t>(bytes, 9);
  if (version != kVersion) {
    return Unsound(absl::StrCat("it is of version ", version, ", not 1"));
  }
  const int code = At<uint8_t>(bytes, 17);
  EVENSTEP_RETURN_IF_ERROR(CheckType(code));
  const auto num_sequences = At<uint64_t>(bytes, 18);
  const auto num_indices = At<uint64_t>(bytes, 26);
  if (num_sequences > kMaxRows || num_indices > kMaxRows || num_indices < 1) {
    return Unsound(absl::StrCat("it counts ", num_sequences, " sequences and ",
                                num_indices, " document indices"));
  }
  return MegatronHeader{static_cast<MegatronType>(code),
                        static_cast<int64_t>(num_sequences),
                        static_cast<int64_t>(num_indices)};
}

absl::StatusOr<MegatronIndex> MegatronIndex::Parse(absl::string_view bytes) {
  MegatronIndex index;
  EVENSTEP_ASSIGN_OR_RETURN(index.header_, ParseMegatronHeader(bytes));
  index.bytes_ = bytes;
  const int64_t num_sequences = index.header_.num_sequences;
  const int64_t plain = kMegatronHeaderBytes +
                        num_sequences * (kLengthBytes + kOffsetBytes) +
                        index.header_.num_indices * kIndexBytes;
  const auto size = static_cast<int64_t>(bytes.size());
  if (size != plain && size != plain + num_sequences) {
    return Unsound(absl::StrCat("it has ", size, " bytes; ", num_sequences,
                                " sequences and ", index.header_.num_indices,
                                " document indices take ", plain, ", or ",
                                plain + num_sequences, " with modes"));
  }
  EVENSTEP_RETURN_IF_ERROR(index.CheckIndices());
  return index;
}

int64_t MegatronIndex::Length(int64_t sequence) const {
  return At<int32_t>(bytes_, kMegatronHeaderBytes + sequence * kLengthBytes);
}

int64_t MegatronIndex::Offset(int64_t sequence) const {
  return At<int64_t>(bytes_, kMegatronHeaderBytes +
                                 header_.num_sequences * kLengthBytes +
                                 sequence * kOffsetBytes);
}

int64_t MegatronIndex::FirstSequence(int64_t document) const {
  return At<int64_t>(bytes_,
                     kMegatronHeaderBytes +
                         header_.num_sequences * (kLengthBytes + kOffsetBytes) +
                         document * kIndexBytes);
}

int MegatronIndex::Mode(int64_t sequence) const {
  const int64_t at = kMegatronHeaderBytes +
                     header_.num_sequences * (kLengthBytes + kOffsetBytes) +
                     header_.num_indices * kIndexBytes + sequence;
  if (at >= static_cast<int64_t>(bytes_.size())) return 0;
  return At<int8_t>(bytes_, at);
}

absl::Status MegatronIndex::CheckIndices() const {
  int64_t previous = 0;
  for (int64_t i = 0; i < header_.num_indices; ++i) {
    const int64_t first = FirstSequence(i);
    if (first < previous || (i == 0 && first != 0)) {
      return Unsound(absl::StrCat("document index ", i, " is ", first,
                                  " after ", previous));
    }
    previous = first;
  }
  if (previous == header_.num_sequences) return absl::OkStatus();
  return Unsound(absl::StrCat("its documents end at sequence ", previous,
                              " of ", header_.num_sequences));
}

void MegatronIndex::AddSequence(int64_t sequence,
                                MegatronDocument* document) const {
  const int64_t length = Length(sequence);
  const int64_t token_bytes = MegatronTokenBytes(header_.type);
  const int64_t expected =
      document->offset + document->num_tokens * token_bytes;
  if (Mode(sequence) != 0) {
    document->problem = absl::StrCat("sequence ", sequence, " has mode ",
                                     Mode(sequence), "; only text, 0, is read");
  } else if (length < 0) {
    document->problem =
        absl::StrCat("sequence ", sequence, " has length ", length);
  } else if (Offset(sequence) != expected) {
    document->problem = absl::StrCat("sequence ", sequence, " stands at byte ",
                                     Offset(sequence), ", not at ", expected);
  } else {
    document->num_tokens += length;
  }
}

MegatronDocument MegatronIndex::Document(int64_t document,
                                         int64_t data_bytes) const {
  MegatronDocument found;
  const int64_t first = FirstSequence(document);
  const int64_t end = FirstSequence(document + 1);
  if (first == end) return found;
  found.offset = Offset(first);
  if (found.offset < 0 || found.offset > data_bytes) {
    found.problem = absl::StrCat("sequence ", first, " stands at byte ",
                                 found.offset, " of ", data_bytes);
  }
  for (int64_t i = first; i < end && found.problem.empty(); ++i) {
    AddSequence(i, &found);
  }
  if (!found.problem.empty()) return found;
  const int64_t bytes = found.num_tokens * MegatronTokenBytes(header_.type);
  if (bytes > data_bytes - found.offset) {
    found.problem =
        absl::StrCat("its ", bytes, " bytes from byte ", found.offset,
                     " on are not within the data file's ", data_bytes);
  }
  return found;
}

int64_t MegatronTokenBytes(MegatronType type) {
  switch (type) {
    case MegatronType::kUint8:
    case MegatronType::kInt8:
      return 1;
    case MegatronType::kInt16:
    case MegatronType::kUint16:
      return 2;
    case MegatronType::kInt32:
    case MegatronType::kFloat32:
      return 4;
    case MegatronType::kInt64:
    case MegatronType::kFloat64:
      return 8;
  }
  return 0;
}

absl::StatusOr<LargestToken> FindLargestToken(MegatronType type,
                                              absl::string_view bytes,
                                              int64_t first) {
  switch (type) {
    case MegatronType::kUint8:
      return Largest<uint8_t>(bytes, first);
    case MegatronType::kInt8:
      return Largest<int8_t>(bytes, first);
    case MegatronType::kInt16:
      return Largest<int16_t>(bytes, first);
    case MegatronType::kUint16:
      return Largest<uint16_t>(bytes, first);
    case MegatronType::kInt32:
      return Largest<int32_t>(bytes, first);
    case MegatronType::kInt64:
      return Largest<int64_t>(bytes, first);
    case MegatronType::kFloat32:
    case MegatronType::kFloat64:
      break;
  }
  return absl::InvalidArgumentError("tokens are not numbers");
}

absl::StatusOr<std::vector<int32_t>> DecodeMegatronTokens(
    MegatronType type, absl::string_view bytes) {
  std::vector<int32_t> tokens;
  const int64_t token_bytes = MegatronTokenBytes(type);
  if (bytes.size() % token_bytes != 0) {
    return absl::DataLossError(absl::StrCat(bytes.size(), " bytes are not ",
                                            "whole tokens of ", token_bytes));
  }
  tokens.reserve(bytes.size() / token_bytes);
  absl::Status status = absl::InvalidArgumentError("tokens are not numbers");
  if (type == MegatronType::kUint8) {
    status = AppendTokens<uint8_t>(bytes, &tokens);
  } else if (type == MegatronType::kInt8) {
    status = AppendTokens<int8_t>(bytes, &tokens);
  } else if (type == MegatronType::kInt16) {
    status = AppendTokens<int16_t>(bytes, &tokens);
  } else if (type == MegatronType::kUint16) {
    status = AppendTokens<uint16_t>(bytes, &tokens);
  } else if (type == MegatronType::kInt32) {
    status = AppendTokens<int32_t>(bytes, &tokens);
  } else if (type == MegatronType::kInt64) {
    status = AppendTokens<int64_t>(bytes, &tokens);
  }
  EVENSTEP_RETURN_IF_ERROR(status);
  return tokens;
}

}  // namespace evenstep::data
