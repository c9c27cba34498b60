#ifndef EVENSTEP_COORDINATOR_SERVER_MESSAGE_CHECK_H_
#define EVENSTEP_COORDINATOR_SERVER_MESSAGE_CHECK_H_

// Decides what an agent may say: who speaks for which rank, node, attempt and
// generation, and the bounds of every field that an agent can send. The
// dispatch of agent messages asks here before anything changes, so that the
// code behind it can rely on ranks that exist and numbers that do not overflow.
//
//   verdict      the message                         what follows
//   kTake        may be said and can be true         it is handled
//   kRepeat      was said before, or is of no use    dropped
//                any more; honest after a reconnect
//                and while an attempt stops
//   kStale       is about another attempt or         dropped, counted by kind
//                generation, or about the node's
//                name under another work folder
//   kRefuse      is malformed, or speaks for ranks   dropped, counted by kind
//                of another node                     and reason, logged
//   kFail        speaks for a rank of the node, but  as kRefuse, and the
//                cannot be true of the job; other    attempt fails with
//                ranks would wait for the truth      INVALID_REPORT
//
// A refused message ends no stream, because other jobs of the node use it and
// the agent would send it again after a reconnect. An agent of which
// kMaxRefusedMessages are refused on one stream is broken: that stream ends
// with the error of the last one. A hello that breaks a bound ends its stream
// at once, for nothing can follow it.
//
// Pure functions; for the event loop's thread, which owns AttemptRun.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/attempts/attempt_run.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

inline constexpr int kMaxRefusedMessages = 100;

// Bounds of numbers; those of texts are in wire/message_bounds.h.
inline constexpr int kMaxSlots = 1024;
inline constexpr int kMaxLogLines = 10000;  // of one batch
// Log lines that an agent may keep to send them again.
inline constexpr int64_t kMaxRepeatedLogLines = int64_t{1} << 22;
inline constexpr int64_t kMaxLogLineNumber = int64_t{1} << 53;
inline constexpr int64_t kMaxDataCount = int64_t{1} << 56;

enum class Verdict { kTake, kRepeat, kStale, kRefuse, kFail };

struct MessageVerdict {
  Verdict verdict = Verdict::kTake;
  // Label of the metric, of kRefuse and kFail: "size", "attempt", "rank",
  // "step", "number", "text" or "content".
  const char* reason = "";
  absl::Status error;
};

// Who sends, and what is known of the attempt that the message names.
struct MessageContext {
  const std::string& node;
  // The job's live attempt of that number; null: there is none.
  const AttemptRun* run = nullptr;
  // The node runs a share of it, and is the agent that was given the share.
  bool is_own = false;
};

// Of every message but hello and heartbeat.
MessageVerdict CheckAgentMessage(const v1::AgentMessage& message,
                                 const MessageContext& context);

// INVALID_ARGUMENT: names, addresses, slots or attempts out of bounds.
absl::Status CheckHello(const v1::AgentHello& hello);

// The attempt that a message names; an empty one for hello and heartbeat.
const v1::AttemptId& AttemptOf(const v1::AgentMessage& message);
// "lengths" and so on: label of metrics. "unknown" for an empty message.
absl::string_view KindOf(const v1::AgentMessage& message);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_MESSAGE_CHECK_H_
