#ifndef EVENSTEP_WORKER_AGENT_SLOW_CHECKS_H_
#define EVENSTEP_WORKER_AGENT_SLOW_CHECKS_H_

// Checks that touch a file system, which may hang: they run one after the other
// on a thread of their own, and each has an answer on the agent's loop within
// its limit. A check that hangs holds up those behind it, whose limits run out
// as well, and nothing else. Run belongs to the loop; Stop to who stops it.

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/event_loop.h"

namespace evenstep::agent {

class SlowChecks {
 public:
  // `loop` outlives Stop.
  explicit SlowChecks(EventLoop* loop);
  ~SlowChecks();  // Stop without patience
  SlowChecks(const SlowChecks&) = delete;
  SlowChecks& operator=(const SlowChecks&) = delete;

  // `done` is called once, on the loop, unless Stop comes first: with what
  // `check` returned, or DEADLINE_EXCEEDED. `check` may run, and what it holds
  // must live, for as long as its file system hangs.
  void Run(std::function<absl::Status()> check, absl::Duration limit,
           std::function<void(const absl::Status&)> done);

  // No more answers. A thread that is still hung after `patience` cannot be
  // joined: it is left to the end of the process, and that is logged.
  void Stop(absl::Duration patience);

 private:
  // Shared with the thread, which may outlive this object.
  struct Answers;

  EventLoop* const loop_;
  const std::shared_ptr<Answers> answers_;
  std::unique_ptr<EventLoop> thread_;  // null: stopped
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_SLOW_CHECKS_H_
