#ifndef EVENSTEP_COORDINATOR_SERVER_RENDEZVOUS_H_
#define EVENSTEP_COORDINATOR_SERVER_RENDEZVOUS_H_

// Keys by which trainers of one generation find each other. A scope is opened
// when its generation begins and closed when it ends: then its keys are gone
// and whoever waits gets ABORTED, so no generation ever reads another's key.
// Waiting costs no thread: answers come by callback, on the event loop's
// thread, which is the single owner.

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "evenstep/v1/agent.pb.h"
#include "wire/message_bounds.h"

namespace evenstep::coordinator {

struct RendezvousLimits {
  size_t key_bytes = wire::kMaxRendezvousKeyBytes;
  size_t value_bytes = wire::kMaxRendezvousValueBytes;
  size_t bytes_per_scope = 64 << 20;
  size_t waiters_per_scope = 16384;
  absl::Duration longest_wait = absl::Minutes(10);
};

class Rendezvous {
 public:
  // Called exactly once, perhaps before Handle returns.
  using Answer = std::function<void(absl::StatusOr<v1::RendezvousResponse>)>;

  explicit Rendezvous(const RendezvousLimits& limits = {}) : limits_(limits) {}

  void Open(const v1::AttemptId& scope);
  void Close(const v1::AttemptId& scope, const std::string& why);
  void CloseAll(const absl::Status& status);

  // ABORTED: the generation is over or has not begun. ALREADY_EXISTS: the key
  // has another value. INVALID_ARGUMENT, RESOURCE_EXHAUSTED: sizes.
  void Handle(const v1::RendezvousRequest& request, absl::Duration now,
              Answer answer);
  // Answers waits whose time is over with found = false.
  void Expire(absl::Duration now);

 private:
  using Key = std::tuple<std::string, int32_t, int64_t>;
  struct Waiter {
    std::string key;
    absl::Duration until;
    Answer answer;
  };
  struct Scope {
    std::map<std::string, std::string> values;
    std::list<Waiter> waiters;
    size_t bytes = 0;
  };

  static Key KeyOf(const v1::AttemptId& id) {
    return {id.job_id(), id.attempt(), id.generation()};
  }
  static void AnswerAll(std::list<Waiter> waiters,
                        const absl::StatusOr<v1::RendezvousResponse>& answer);
  absl::Status Set(Scope& scope, const v1::RendezvousSet& set);
  void Get(Scope& scope, const v1::RendezvousGet& get, absl::Duration now,
           Answer answer);

  const RendezvousLimits limits_;
  std::map<Key, Scope> scopes_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_RENDEZVOUS_H_
