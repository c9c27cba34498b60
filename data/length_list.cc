#include "data/length_list.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/parse_value.h"
#include "base/status_macros.h"

namespace evenstep::data {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

absl::StatusOr<LengthDraw> ParseLength(absl::string_view line) {
  LengthDraw draw;
  const std::vector<absl::string_view> parts = absl::StrSplit(line, 'x');
  if (parts.size() == 1) {
    EVENSTEP_RETURN_IF_ERROR(ParseValue(line, &draw.length));
  } else if (parts.size() == 3) {
    EVENSTEP_RETURN_IF_ERROR(ParseValue(parts[0], &draw.frames));
    EVENSTEP_RETURN_IF_ERROR(ParseValue(parts[1], &draw.height));
    EVENSTEP_RETURN_IF_ERROR(ParseValue(parts[2], &draw.width));
    constexpr int64_t kMost = kMaxListedLength;
    for (int64_t side : {draw.frames, draw.height, draw.width}) {
      if (side < 1 || side > kMost) {
        return absl::InvalidArgumentError(
            absl::StrCat("frames, height and width are from 1 to ", kMost));
      }
    }
    const int64_t patches = draw.height * draw.width;
    if (patches > kMost || patches > kMost / draw.frames) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMost, " tokens"));
    }
    draw.length = patches * draw.frames;
  } else {
    return absl::InvalidArgumentError(
        "neither a number of tokens nor FRAMESxHEIGHTxWIDTH");
  }
  if (draw.length < 1 || draw.length > kMaxListedLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("a length is from 1 to ", kMaxListedLength, " tokens"));
  }
  return draw;
}

}  // namespace

absl::StatusOr<std::vector<LengthDraw>> ParseLengths(const std::string& text) {
  std::vector<LengthDraw> samples;
  int64_t line_number = 0;
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, kByteOrderMark);
  for (absl::string_view line : absl::StrSplit(rest, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    auto draw = ParseLength(line);
    if (!draw.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line_number, " ('", line.substr(0, 40),
                       "'): ", draw.status().message()));
    }
    samples.push_back(*draw);
  }
  if (samples.empty()) return absl::InvalidArgumentError("no lengths");
  return samples;
}

}  // namespace evenstep::data
