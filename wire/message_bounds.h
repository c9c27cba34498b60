#ifndef EVENSTEP_WIRE_MESSAGE_BOUNDS_H_
#define EVENSTEP_WIRE_MESSAGE_BOUNDS_H_

// Bounds of what trainers, agents and clients may put into a message, for the
// checks of the agent (worker/agent/trainer_frames.h) and of the coordinator
// (coordinator/server/message_check.h, request_check.h). Texts in bytes; longer
// texts for people are cut, not refused. Constants and pure functions.

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace evenstep::wire {

inline constexpr size_t kMaxNodeNameBytes = 253;  // a host name's bound
inline constexpr size_t kMaxJobIdBytes = 63;
inline constexpr size_t kMaxVersionBytes = 128;
inline constexpr size_t kMaxAddressBytes = 300;
inline constexpr size_t kMaxReasonBytes = 64;
inline constexpr size_t kMaxLinkTextBytes = 1024;
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxPersonTextBytes = 8 << 10;
inline constexpr size_t kMaxLogLineBytes = 8 << 10;
inline constexpr size_t kMaxRendezvousKeyBytes = 512;
inline constexpr size_t kMaxRendezvousValueBytes = 64 << 10;
// Of whole messages.
inline constexpr size_t kMaxDataSummaryBytes = 64 << 10;
inline constexpr size_t kMaxCostsBytes = 1 << 20;

// 1 to 63 of [a-z0-9-], beginning with a letter: what a client may choose.
inline bool IsLegalJobId(absl::string_view text) {
  if (text.empty() || text.size() > kMaxJobIdBytes) return false;
  if (text[0] < 'a' || text[0] > 'z') return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
         absl::string_view::npos;
}

// A text for people, cut to kMaxPersonTextBytes at a character.
std::string PersonText(absl::string_view text);

// INVALID_ARGUMENT: longer than `max_bytes`.
absl::Status CheckSize(absl::string_view field, absl::string_view text,
                       size_t max_bytes);
// INVALID_ARGUMENT: longer than `max_bytes`, or with a control character.
absl::Status CheckText(absl::string_view field, absl::string_view text,
                       size_t max_bytes);
// INVALID_ARGUMENT: not of [A-Z0-9_], or too long. Empty is fine.
absl::Status CheckReason(absl::string_view reason);

template <typename Number>
absl::Status CheckRange(absl::string_view field, Number value, Number least,
                        Number most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", value, "; it must be from ", least, " to ", most));
}

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_MESSAGE_BOUNDS_H_
