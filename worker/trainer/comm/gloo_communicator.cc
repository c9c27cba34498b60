#include "worker/trainer/comm/gloo_communicator.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/exchange.h"

namespace evenstep::trainer {
namespace {

using Buffer = gloo::transport::UnboundBuffer;
using Deadline = std::chrono::steady_clock::time_point;

// Carries an absl::Status through Gloo's rendezvous, which knows exceptions
// only.
struct StoreError : std::exception {
  explicit StoreError(absl::Status status) : status(std::move(status)) {}
  const char* what() const noexcept override { return "rendezvous failed"; }
  const absl::Status status;
};

// The one place where Gloo's exceptions become values.
template <typename Body>
absl::Status Translate(absl::string_view what, const Body& body) {
  try {
    return body();
  } catch (const StoreError& error) {
    return error.status;
  } catch (const gloo::IoException& error) {
    const std::string text = absl::StrCat(what, ": ", error.what());
    if (absl::StrContains(text, "imed out")) {
      return absl::DeadlineExceededError(text);
    }
    return absl::UnavailableError(text);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

// Gloo's view of a RendezvousStore, under one group's key.
class StoreAdapter : public gloo::rendezvous::Store {
 public:
  StoreAdapter(RendezvousStore* store, std::string scope,
               absl::Duration timeout)
      : store_(store), scope_(std::move(scope)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    absl::Status status =
        store_->Set(Scoped(key), std::string(data.begin(), data.end()));
    if (!status.ok()) throw StoreError(std::move(status));
  }

  std::vector<char> get(const std::string& key) override {
    wait({key});
    const std::string& value = values_.at(key);
    return {value.begin(), value.end()};
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      if (values_.contains(key)) continue;
      absl::StatusOr<std::string> value = store_->Get(Scoped(key), timeout_);
      if (!value.ok()) throw StoreError(std::move(value).status());
      values_[key] = *std::move(value);
    }
  }

  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& /*timeout*/) override {
    wait(keys);
  }

 private:
  std::string Scoped(const std::string& key) const {
    return absl::StrCat(scope_, "/", key);
  }

  RendezvousStore* const store_;
  const std::string scope_;
  const absl::Duration timeout_;
  std::map<std::string, std::string> values_;
};

// Messages meet by slot (of a pair of ranks). Kind and size are part of it, so
// that ranks which disagree reach the time-out; unequal sizes under one slot
// would end the process from Gloo's own thread.
uint64_t Slot(uint64_t sequence, CollectiveKind kind, int64_t bytes) {
  return (sequence << 44) | (static_cast<uint64_t>(kind) << 40) |
         (static_cast<uint64_t>(bytes) & ((uint64_t{1} << 40) - 1));
}

// Buffers of the exchange in progress. Empty runs have none.
struct Transfer {
  std::vector<std::unique_ptr<Buffer>> sends;
  std::vector<std::unique_ptr<Buffer>> receives;
};

// In milliseconds. Shared by a factory and all its groups, so that it can
// change while they live.
using SharedTimeout = std::atomic<int64_t>;

class GlooExchange : public Exchange {
 public:
  GlooExchange(std::shared_ptr<gloo::rendezvous::Context> context,
               std::shared_ptr<const SharedTimeout> timeout)
      : context_(std::move(context)),
        timeout_(std::move(timeout)),
        sent_to_(context_->size),
        received_from_(context_->size) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  absl::Status Run(CollectiveKind kind, absl::Span<const SendRun> sends,
                   absl::Span<const ReceiveRun> receives) override;
  absl::Status Send(int peer, const SendRun& run) override;
  absl::Status Receive(int peer, const ReceiveRun& run) override;
  void Abort(absl::string_view why) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Waits for what `post` (returns a Transfer) has begun.
  template <typename PostTransfer>
  absl::Status Complete(CollectiveKind kind, const PostTransfer& post)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Transfer Post(CollectiveKind kind, absl::Span<const SendRun> sends,
                absl::Span<const ReceiveRun> receives);
  absl::Status Wait(const Transfer& transfer);
  // Tells Abort which buffers are being waited for; nullptr: none.
  absl::Status Publish(Transfer* transfer) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<gloo::rendezvous::Context> context_;
  const std::shared_ptr<const SharedTimeout> timeout_;
  uint64_t sequence_ = 0;
  // Messages between two ranks are counted apart: others do not see them.
  std::vector<uint64_t> sent_to_;
  std::vector<uint64_t> received_from_;
  absl::Mutex mutex_;
  Transfer* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status GlooExchange::Run(CollectiveKind kind,
                               absl::Span<const SendRun> sends,
                               absl::Span<const ReceiveRun> receives) {
  if (sends[rank()].bytes > 0) {
    std::memcpy(receives[rank()].data, sends[rank()].data, sends[rank()].bytes);
  }
  return Complete(kind, [&] { return Post(kind, sends, receives); });
}

absl::Status GlooExchange::Send(int peer, const SendRun& run) {
  return Complete(CollectiveKind::kSend, [&] {
    Transfer transfer;
    transfer.sends.push_back(context_->createUnboundBuffer(
        const_cast<std::byte*>(run.data), run.bytes));
    transfer.sends.back()->send(
        peer, Slot(++sent_to_[peer], CollectiveKind::kSend, run.bytes));
    return transfer;
  });
}

absl::Status GlooExchange::Receive(int peer, const ReceiveRun& run) {
  return Complete(CollectiveKind::kReceive, [&] {
    Transfer transfer;
    transfer.receives.push_back(
        context_->createUnboundBuffer(run.data, run.bytes));
    transfer.receives.back()->recv(
        peer, Slot(++received_from_[peer], CollectiveKind::kSend, run.bytes));
    return transfer;
  });
}

template <typename PostTransfer>
absl::Status GlooExchange::Complete(CollectiveKind kind,
                                    const PostTransfer& post) {
  Transfer transfer;
  absl::Status status = Translate(CollectiveName(kind), [&] {
    transfer = post();
    EVENSTEP_RETURN_IF_ERROR(Publish(&transfer));
    return Wait(transfer);
  });
  absl::MutexLock lock(&mutex_);
  current_ = nullptr;
  failed_ = !status.ok();
  return status;
}

Transfer GlooExchange::Post(CollectiveKind kind,
                            absl::Span<const SendRun> sends,
                            absl::Span<const ReceiveRun> receives) {
  ++sequence_;
  Transfer transfer;
  for (int offset = 1; offset < size(); ++offset) {
    const int from = (rank() + size() - offset) % size();
    if (receives[from].bytes == 0) continue;
    transfer.receives.push_back(context_->createUnboundBuffer(
        receives[from].data, receives[from].bytes));
    transfer.receives.back()->recv(from,
                                   Slot(sequence_, kind, receives[from].bytes));
  }
  for (int offset = 1; offset < size(); ++offset) {
    const int to = (rank() + offset) % size();
    if (sends[to].bytes == 0) continue;
    // Gloo's buffers are writable, but sending only reads.
    transfer.sends.push_back(context_->createUnboundBuffer(
        const_cast<std::byte*>(sends[to].data), sends[to].bytes));
    transfer.sends.back()->send(to, Slot(sequence_, kind, sends[to].bytes));
  }
  return transfer;
}

absl::Status GlooExchange::Publish(Transfer* transfer) {
  absl::MutexLock lock(&mutex_);
  if (aborted_) return absl::AbortedError("aborted");
  current_ = transfer;
  return absl::OkStatus();
}

absl::Status GlooExchange::Wait(const Transfer& transfer) {
  const Deadline deadline = std::chrono::steady_clock::now() +
                            std::chrono::milliseconds(timeout_->load());
  // A wait of 0 would mean for ever.
  const auto left = [deadline] {
    const auto until = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    return std::max(until, std::chrono::milliseconds(1));
  };
  for (const auto& buffer : transfer.receives) {
    if (!buffer->waitRecv(left())) return absl::AbortedError("aborted");
  }
  for (const auto& buffer : transfer.sends) {
    if (!buffer->waitSend(left())) return absl::AbortedError("aborted");
  }
  return absl::OkStatus();
}

void GlooExchange::Abort(absl::string_view /*why*/) {
  absl::MutexLock lock(&mutex_);
  aborted_ = true;
  // After an error the context must not be touched; destroying it is enough.
  if (failed_) return;
  if (current_ != nullptr) {
    for (const auto& buffer : current_->receives) buffer->abortWaitRecv();
    for (const auto& buffer : current_->sends) buffer->abortWaitSend();
  }
  // Peers that wait for this rank see the connection close.
  Translate("close", [this] {
    context_->closeConnections();
    return absl::OkStatus();
  }).IgnoreError();
}

// Returns once all ranks of the group have called it, or after `wait`. Before
// that nobody connects: Gloo limits how long a connection may take by itself.
absl::Status AwaitRanks(RendezvousStore* store, const std::string& key,
                        const RankBlock& block, int world_rank,
                        const GlooOptions& options) {
  const auto key_of = [&key](int rank) {
    return absl::StrCat(key, "/ready/", rank);
  };
  EVENSTEP_RETURN_IF_ERROR(store->Set(key_of(world_rank), "1"));
  const absl::Duration end = RealClock().Monotonic() + options.start_wait;
  for (int i = 0; i < block.degree; ++i) {
    absl::Status status;
    do {
      status =
          store->Get(key_of(block.first_rank + i), options.timeout).status();
    } while (absl::IsDeadlineExceeded(status) && RealClock().Monotonic() < end);
    EVENSTEP_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

class GlooFactory : public CommunicatorFactory {
 public:
  GlooFactory(std::shared_ptr<gloo::transport::Device> device,
              const GlooOptions& options, RendezvousStore* store)
      : device_(std::move(device)),
        options_(options),
        timeout_(std::make_shared<SharedTimeout>(
            absl::ToInt64Milliseconds(options.timeout))),
        store_(store) {}

  void SetTimeout(absl::Duration timeout) override {
    *timeout_ = absl::ToInt64Milliseconds(timeout);
    started_ = true;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_RETURN_IF_ERROR(CheckInBlock(block, world_rank));
    if (!started_ && options_.start_wait > options_.timeout) {
      EVENSTEP_RETURN_IF_ERROR(
          AwaitRanks(store_, key, block, world_rank, options_));
    }
    std::shared_ptr<gloo::rendezvous::Context> context;
    EVENSTEP_RETURN_IF_ERROR(
        Translate(absl::StrCat("setting up group ", key), [&] {
          context = std::make_shared<gloo::rendezvous::Context>(
              world_rank - block.first_rank, block.degree);
          context->setTimeout(absl::ToChronoMilliseconds(options_.timeout));
          StoreAdapter adapter(store_, key, options_.timeout);
          context->connectFullMesh(adapter, device_);
          return absl::OkStatus();
        }));
    auto communicator = MakeMeshCommunicator(
        std::make_unique<GlooExchange>(std::move(context), timeout_));
    EVENSTEP_RETURN_IF_ERROR(WarmOnHost(*communicator));
    return communicator;
  }

 private:
  std::shared_ptr<gloo::transport::Device> device_;
  const GlooOptions options_;
  const std::shared_ptr<SharedTimeout> timeout_;
  std::atomic<bool> started_ = false;
  RendezvousStore* const store_;
};

// Gloo reads an unset pointer when a host has no address, so ask before it.
absl::Status CheckHostResolves(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "host ", host, " to listen on for peers: ", ::gai_strerror(error)));
  }
  ::freeaddrinfo(found);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommunicatorFactory>> MakeGlooFactory(
    const GlooOptions& options, RendezvousStore* store) {
  if (options.listen_host.empty()) {
    return absl::InvalidArgumentError("no host to listen on for peers");
  }
  if (options.timeout < absl::Milliseconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("time-out of collectives is ",
                     absl::FormatDuration(options.timeout), ", below 1 ms"));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckHostResolves(options.listen_host));
  std::shared_ptr<gloo::transport::Device> device;
  absl::Status status =
      Translate(absl::StrCat("listening on ", options.listen_host), [&] {
        gloo::transport::tcp::attr attributes;
        attributes.hostname = options.listen_host;
        device = gloo::transport::tcp::CreateDevice(attributes);
        return absl::OkStatus();
      });
  if (!status.ok()) return absl::UnavailableError(status.message());
  return std::make_unique<GlooFactory>(std::move(device), options, store);
}

}  // namespace evenstep::trainer
