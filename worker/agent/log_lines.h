#ifndef EVENSTEP_WORKER_AGENT_LOG_LINES_H_
#define EVENSTEP_WORKER_AGENT_LOG_LINES_H_

// From the bytes that a trainer writes to lines that may be sent: cut at line
// ends, bounded in length and in rate, and valid UTF-8, which protobuf demands.
// Pure; one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace evenstep::agent {

inline constexpr size_t kMaxLineBytes = 4096;

// Cuts a byte stream at line ends. A line longer than kMaxLineBytes is cut
// there, the rest is thrown away, and " [cut]" stands at its end.
class LineSplitter {
 public:
  // Complete lines, without line ends, '\r' removed, in valid UTF-8.
  std::vector<std::string> Add(absl::string_view bytes);
  // The last line, when it had no line end; empty: none.
  std::string TakeRest();

 private:
  std::string Finish();

  std::string partial_;
  bool overlong_ = false;
};

// Lets `per_second` lines through, and bursts of twice that.
class LineRate {
 public:
  explicit LineRate(double per_second);
  // `now` never goes back.
  bool Allow(absl::Duration now);

 private:
  const double per_second_;
  double tokens_;
  absl::Duration last_ = absl::ZeroDuration();
  bool started_ = false;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_LOG_LINES_H_
