#include "rpc/stream_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/errors.h"

namespace evenstep::rpc {
namespace {

// After an abort only the library's own threads have to run.
constexpr absl::Duration kAbortWait = absl::Seconds(1);

}  // namespace

StreamRegistry::StreamRegistry(size_t max_streams)
    : max_streams_(max_streams) {}

absl::Status StreamRegistry::Add(std::shared_ptr<LiveStream> stream) {
  absl::MutexLock lock(&mutex_);
  if (finishing_) {
    return WithReason(absl::UnavailableError("the server is shutting down"),
                      kShuttingDown);
  }
  if (streams_.size() >= max_streams_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server already has ", streams_.size(),
                     " open streams, its limit; try again later"));
  }
  LiveStream* const key = stream.get();
  streams_.emplace(key, std::move(stream));
  return absl::OkStatus();
}

void StreamRegistry::Remove(LiveStream* stream) {
  std::shared_ptr<LiveStream> keep;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  keep = std::move(it->second);
  streams_.erase(it);
}

size_t StreamRegistry::size() const {
  absl::MutexLock lock(&mutex_);
  return streams_.size();
}

bool StreamRegistry::FinishAll(const absl::Status& status,
                               absl::Duration grace) {
  {
    absl::MutexLock lock(&mutex_);
    finishing_ = true;
  }
  for (const auto& stream : Snapshot()) stream->Finish(status);
  if (AwaitEmpty(grace)) return true;
  for (const auto& stream : Snapshot()) stream->Abort(status);
  return AwaitEmpty(kAbortWait);
}

std::vector<std::shared_ptr<LiveStream>> StreamRegistry::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<LiveStream>> streams;
  streams.reserve(streams_.size());
  for (const auto& [key, stream] : streams_) streams.push_back(stream);
  return streams;
}

bool StreamRegistry::AwaitEmpty(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return streams_.empty();
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&empty), timeout);
}

}  // namespace evenstep::rpc
