#include "wire/message_bounds.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace evenstep::wire {

std::string PersonText(absl::string_view text) {
  return std::string(Utf8Prefix(text, kMaxPersonTextBytes));
}

absl::Status CheckSize(absl::string_view field, absl::string_view text,
                       size_t max_bytes) {
  if (text.size() <= max_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", text.size(), " bytes; at most ", max_bytes));
}

absl::Status CheckText(absl::string_view field, absl::string_view text,
                       size_t max_bytes) {
  EVENSTEP_RETURN_IF_ERROR(CheckSize(field, text, max_bytes));
  if (std::any_of(text.begin(), text.end(), absl::ascii_iscntrl)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " holds a control character"));
  }
  return absl::OkStatus();
}

absl::Status CheckReason(absl::string_view reason) {
  EVENSTEP_RETURN_IF_ERROR(CheckText("reason", reason, kMaxReasonBytes));
  const bool legal = std::all_of(reason.begin(), reason.end(), [](char c) {
    return absl::ascii_isupper(c) || absl::ascii_isdigit(c) || c == '_';
  });
  if (legal) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("reason '", reason, "' is not of [A-Z0-9_]"));
}

}  // namespace evenstep::wire
