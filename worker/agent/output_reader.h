#ifndef EVENSTEP_WORKER_AGENT_OUTPUT_READER_H_
#define EVENSTEP_WORKER_AGENT_OUTPUT_READER_H_

// Reads what one trainer writes to stdout and stderr until both are closed:
// keeps it in a bounded file, and gives lines to a callback, bounded in length
// and rate. What the file cannot take (a full disk, its own bound) is counted,
// and said once in a line of its own. Owns its thread and the two descriptors.
// The callback runs on that thread and must not block.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::agent {

// From the bytes that a trainer writes to lines that may be sent: cut at line
// ends, bounded in length and in rate, and valid UTF-8, which protobuf demands.
// Pure; one thread at a time.

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

// What is kept of one trainer's output on disk.
inline constexpr int64_t kMaxLogFileBytes = 64 << 20;

struct OutputLines {
  std::vector<std::string> lines;
  int64_t num_dropped = 0;     // above the rate, before and among these
  int64_t bytes_not_kept = 0;  // on disk, since the last call
};

inline constexpr size_t kLastWordsBytes = 1000;

class OutputReader {
 public:
  using Callback = std::function<void(OutputLines)>;

  OutputReader(UniqueFd output, UniqueFd error, const std::string& log_path,
               double lines_per_second, Callback callback);
  ~OutputReader();  // Finish
  OutputReader(const OutputReader&) = delete;
  OutputReader& operator=(const OutputReader&) = delete;

  // After the process has ended: reads what is left, also a last line without
  // an end, and joins. Gives up on a descriptor that a stranger holds open.
  void Finish();

  // The last lines of stderr, or of stdout if there is none, whole ones with
  // " | " between them; at most kLastWordsBytes.
  std::string LastWords() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Stream {
    UniqueFd fd;
    LineSplitter splitter;
    std::deque<std::string> last_words;
  };

  void Run();
  // Waits for input; false: nothing more will come.
  bool ReadSome();
  void ReadStream(Stream& stream);
  void Deliver(Stream& stream, std::vector<std::string> lines);
  void KeepOnDisk(absl::string_view bytes);
  void NotKept(size_t bytes, absl::string_view why);

  const Callback callback_;
  Stream output_;
  Stream error_;
  LineRate rate_;
  const std::string log_path_;
  UniqueFd file_;
  int open_error_ = 0;
  int64_t file_bytes_ = 0;
  int64_t bytes_not_kept_ = 0;  // since the last call of callback_
  bool told_not_kept_ = false;
  UniqueFd stop_read_;  // readable once Finish was called
  UniqueFd stop_write_;
  bool draining_ = false;
  mutable absl::Mutex mutex_;
  std::string last_words_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Gathers the log lines of one attempt's ranks into messages of a bounded size:
// one is due when it is full, or when the owner's timer says so. On the agent's
// loop; pure.

class LogBatcher {
 public:
  // `send` gets batches with lines, without an attempt id.
  explicit LogBatcher(std::function<void(v1::LogBatch)> send);

  // Also tells of dropped lines, as a line of its own.
  void Add(int rank, int attempt, absl::Time now, const OutputLines& output);
  // Sends what is there.
  void Flush();
  bool empty() const { return batch_.lines().empty(); }

 private:
  void AddLine(int rank, int attempt, absl::Time now, const std::string& text);

  const std::function<void(v1::LogBatch)> send_;
  v1::LogBatch batch_;
  size_t batch_bytes_ = 0;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_OUTPUT_READER_H_
