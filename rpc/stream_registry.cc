#include "rpc/stream_registry.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/errors.h"

namespace evenstep::rpc {
namespace {

// After an abort only the library's own threads have to run.
constexpr absl::Duration kAbortWait = absl::Seconds(1);

}  // namespace

std::string CallerOf(absl::string_view peer) {
  for (const char* loopback :
       {"ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "unix:"}) {
    if (absl::StartsWith(peer, loopback)) return std::string(peer);
  }
  return std::string(peer.substr(0, peer.rfind(':')));
}

StreamRegistry::StreamRegistry(const StreamLimits& limits) : limits_(limits) {}

absl::Status StreamRegistry::Add(std::shared_ptr<LiveStream> stream,
                                 absl::string_view peer) {
  std::string caller = CallerOf(peer);
  absl::MutexLock lock(&mutex_);
  if (finishing_) {
    return WithReason(absl::UnavailableError("the server is shutting down"),
                      kShuttingDown);
  }
  if (streams_.size() >= limits_.in_all) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server already has ", streams_.size(),
                     " open calls, its limit; try again later"));
  }
  const auto known = num_by_caller_.find(caller);
  if (known != num_by_caller_.end() && known->second >= limits_.per_caller) {
    return absl::ResourceExhaustedError(
        absl::StrCat(caller, " already has ", known->second,
                     " open calls, the limit of one caller; end some first"));
  }
  ++num_by_caller_[caller];
  LiveStream* const key = stream.get();
  streams_.emplace(key, Entry{std::move(stream), std::move(caller)});
  return absl::OkStatus();
}

void StreamRegistry::Remove(LiveStream* stream) {
  std::shared_ptr<LiveStream> keep;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  keep = std::move(it->second.stream);
  const auto count = num_by_caller_.find(it->second.caller);
  if (--count->second == 0) num_by_caller_.erase(count);
  streams_.erase(it);
  if (streams_.empty()) emptied_.NotifyAll();
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
  for (const auto& [key, entry] : streams_) streams.push_back(entry.stream);
  return streams;
}

bool StreamRegistry::AwaitEmpty(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return streams_.empty();
  };
  return emptied_.WaitFor(mutex_, timeout, empty);
}

}  // namespace evenstep::rpc
