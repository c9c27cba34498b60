#ifndef EVENSTEP_CLIENT_RESUME_H_
#define EVENSTEP_CLIENT_RESUME_H_

// Streams that outlive their connection: each new connection goes on at the
// cursor, and what it repeats is left out. Pure but for what the sources do, so
// that broken connections are tested without a network. Used by GrpcClient.

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/retry.h"
#include "evenstep/client.h"

namespace evenstep::client {

struct WatchSource {
  // One connection: delivers what follows the cursor until the server ends the
  // stream (OK), it breaks (error), or the handler stops.
  std::function<absl::Status(const WatchCursor&, const WatchHandler&)> open;
  // Whether the job has ended: asked when a stream ended without saying so.
  std::function<absl::StatusOr<bool>()> has_ended;
};

absl::Status ResumeWatch(const WatchSource& source, WatchCursor* cursor,
                         Retry* retry, const WatchHandler& handler);

struct LogSource {
  std::function<absl::Status(const LogCursor&, const LogHandler&)> open;
  std::function<absl::StatusOr<bool>()> has_ended;
};

absl::Status ResumeLogs(const LogSource& source, LogCursor* cursor,
                        LogMode mode, Retry* retry, const LogHandler& handler);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_RESUME_H_
