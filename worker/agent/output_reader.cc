#include "worker/agent/output_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

namespace evenstep::agent {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
// After the process has ended its output is there already; this long silence
// means that a stranger holds the descriptor.
constexpr int kDrainSilenceMs = 100;

constexpr absl::string_view kBetweenLines = " | ";
constexpr absl::string_view kCut = " [cut]";

// Takes whole lines from the front where there is no room. A line that is too
// long by itself says so; its beginning says more than its end.
void AppendWords(std::deque<std::string>* words, absl::string_view line) {
  if (line.empty()) return;
  if (line.size() > kLastWordsBytes) {
    const size_t room = kLastWordsBytes - kCut.size();
    words->push_back(absl::StrCat(Utf8Prefix(line, room), kCut));
  } else {
    words->emplace_back(line);
  }
  size_t bytes = 0;
  for (const std::string& kept : *words) {
    bytes += kept.size() + kBetweenLines.size();
  }
  while (bytes - kBetweenLines.size() > kLastWordsBytes) {
    bytes -= words->front().size() + kBetweenLines.size();
    words->pop_front();
  }
}

}  // namespace

OutputReader::OutputReader(UniqueFd output, UniqueFd error,
                           const std::string& log_path, double lines_per_second,
                           Callback callback)
    : callback_(std::move(callback)),
      rate_(lines_per_second),
      log_path_(log_path),
      file_(open(log_path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                 0666)),
      open_error_(file_.valid() ? 0 : errno) {
  output_.fd = std::move(output);
  error_.fd = std::move(error);
  int fds[2] = {-1, -1};
  if (pipe2(fds, O_CLOEXEC) == 0) {
    stop_read_.Reset(fds[0]);
    stop_write_.Reset(fds[1]);
  }
  for (Stream* stream : {&output_, &error_}) {
    fcntl(stream->fd.get(), F_SETFL, O_NONBLOCK);
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "trainer-output");
}

OutputReader::~OutputReader() { Finish(); }

void OutputReader::Finish() {
  stop_write_.Reset();
  if (thread_.joinable()) thread_.join();
}

std::string OutputReader::LastWords() const {
  absl::MutexLock lock(&mutex_);
  return last_words_;
}

void OutputReader::Run() {
  while (ReadSome()) {
  }
  for (Stream* stream : {&output_, &error_}) {
    std::string rest = stream->splitter.TakeRest();
    if (!rest.empty()) Deliver(*stream, {std::move(rest)});
  }
  absl::MutexLock lock(&mutex_);
  last_words_ = absl::StrJoin(
      error_.last_words.empty() ? output_.last_words : error_.last_words,
      kBetweenLines);
}

bool OutputReader::ReadSome() {
  if (!output_.fd.valid() && !error_.fd.valid()) return false;
  pollfd waits[3] = {{output_.fd.get(), POLLIN, 0},
                     {error_.fd.get(), POLLIN, 0},
                     {draining_ ? -1 : stop_read_.get(), POLLIN, 0}};
  const int ready = poll(waits, 3, draining_ ? kDrainSilenceMs : -1);
  if (ready < 0) return errno == EINTR;
  if (ready == 0) return false;
  if (waits[2].revents != 0) draining_ = true;
  if (waits[0].revents != 0) ReadStream(output_);
  if (waits[1].revents != 0) ReadStream(error_);
  return true;
}

void OutputReader::ReadStream(Stream& stream) {
  char chunk[kChunkBytes];
  const ssize_t got = read(stream.fd.get(), chunk, sizeof(chunk));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    stream.fd.Reset();
    return;
  }
  const absl::string_view bytes(chunk, static_cast<size_t>(got));
  KeepOnDisk(bytes);
  Deliver(stream, stream.splitter.Add(bytes));
}

void OutputReader::Deliver(Stream& stream, std::vector<std::string> lines) {
  OutputLines batch;
  const absl::Duration now = RealClock().Monotonic();
  for (std::string& line : lines) {
    AppendWords(&stream.last_words, line);
    if (rate_.Allow(now)) {
      batch.lines.push_back(std::move(line));
    } else {
      ++batch.num_dropped;
    }
  }
  batch.bytes_not_kept = std::exchange(bytes_not_kept_, 0);
  if (!lines.empty() || batch.bytes_not_kept > 0) callback_(std::move(batch));
}

void OutputReader::KeepOnDisk(absl::string_view bytes) {
  const auto room = static_cast<size_t>(kMaxLogFileBytes - file_bytes_);
  const size_t size = std::min(room, bytes.size());
  if (size < bytes.size()) {
    NotKept(bytes.size() - size,
            absl::StrCat("it is at its bound of ", kMaxLogFileBytes, " bytes"));
  }
  for (absl::string_view left = bytes.substr(0, size); !left.empty();) {
    const ssize_t written = write(file_.get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = open_error_ != 0 ? open_error_ : errno;
      return NotKept(left.size(),
                     written == 0 ? "it takes nothing" : strerror(error));
    }
    left.remove_prefix(static_cast<size_t>(written));
    file_bytes_ += written;
  }
}

// Later output is kept again once there is room.
void OutputReader::NotKept(size_t bytes, absl::string_view why) {
  bytes_not_kept_ += static_cast<int64_t>(bytes);
  if (std::exchange(told_not_kept_, true)) return;
  Log(LogLevel::kError, "log_file_not_written",
      {{"path", log_path_}, {"bytes", bytes}, {"why", why}});
  OutputLines note;
  note.lines.push_back(absl::StrCat("[output is missing from the log file ",
                                    log_path_,
                                    " on the node from here on: ", why, "]"));
  callback_(std::move(note));
}

std::vector<std::string> LineSplitter::Add(absl::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const absl::string_view piece = bytes.substr(0, end);
    const size_t room = kMaxLineBytes - partial_.size();
    partial_.append(piece.data(), std::min(room, piece.size()));
    if (piece.size() > room) overlong_ = true;
    if (end == absl::string_view::npos) break;
    lines.push_back(Finish());
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::string LineSplitter::TakeRest() {
  return partial_.empty() ? std::string() : Finish();
}

std::string LineSplitter::Finish() {
  if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
  std::string line = ToValidUtf8(partial_);
  if (overlong_) line += " [cut]";
  partial_.clear();
  overlong_ = false;
  return line;
}

LineRate::LineRate(double per_second)
    : per_second_(per_second), tokens_(2 * per_second) {}

bool LineRate::Allow(absl::Duration now) {
  if (started_) {
    tokens_ += per_second_ * absl::ToDoubleSeconds(now - last_);
    tokens_ = std::min(tokens_, 2 * per_second_);
  }
  started_ = true;
  last_ = now;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

namespace {

constexpr int kMaxLines = 200;
constexpr size_t kMaxBytes = 64 << 10;

}  // namespace

LogBatcher::LogBatcher(std::function<void(v1::LogBatch)> send)
    : send_(std::move(send)) {}

void LogBatcher::Add(int rank, int attempt, absl::Time now,
                     const OutputLines& output) {
  for (const std::string& line : output.lines) {
    AddLine(rank, attempt, now, line);
  }
  if (output.num_dropped > 0) {
    AddLine(rank, attempt, now,
            absl::StrCat("[", output.num_dropped,
                         " lines were not sent: too many a second; they are in "
                         "the log file on the node]"));
  }
}

void LogBatcher::AddLine(int rank, int attempt, absl::Time now,
                         const std::string& text) {
  v1::LogLine* line = batch_.add_lines();
  const timespec time = absl::ToTimespec(now);
  line->mutable_time()->set_seconds(time.tv_sec);
  line->mutable_time()->set_nanos(static_cast<int32_t>(time.tv_nsec));
  line->set_rank(rank);
  line->set_attempt(attempt);
  line->set_text(text);
  batch_bytes_ += text.size();
  if (batch_.lines_size() >= kMaxLines || batch_bytes_ >= kMaxBytes) Flush();
}

void LogBatcher::Flush() {
  if (batch_.lines().empty()) return;
  send_(std::exchange(batch_, v1::LogBatch()));
  batch_bytes_ = 0;
}

}  // namespace evenstep::agent
