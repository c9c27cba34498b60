#ifndef EVENSTEP_BASE_SIGNALS_H_
#define EVENSTEP_BASE_SIGNALS_H_

// Signals as calls on one ordinary thread. `main` calls BlockSignals before it
// starts any thread (threads inherit the mask), then makes one SignalWaiter.
// Children that are spawned must reset the mask (POSIX_SPAWN_SETSIGMASK).
//
//   BlockSignals();
//   SignalWaiter waiter({.on_stop = [&] { server.BeginShutdown(); },
//                        .on_reload = [&] { ReloadLogLevel(); }});

#include <atomic>
#include <functional>
#include <thread>

namespace evenstep {

// Blocks SIGTERM, SIGINT, SIGHUP and the waiter's own signal in the calling
// thread, and calls IgnoreWriteSignals.
void BlockSignals();
// The same, but SIGINT and SIGHUP stay as they are: a waiter is called for
// SIGTERM alone where those two are ignored.
void BlockSigtermOnly();
// Ignores SIGPIPE and SIGXFSZ in the process: a write that a closed reader or a
// limit of file sizes stops fails with EPIPE or EFBIG.
void IgnoreWriteSignals();

// Calls back from its own thread. Callbacks may block; they must not destroy
// the waiter. The destructor joins the thread.
class SignalWaiter {
 public:
  struct Callbacks {
    std::function<void()> on_stop;    // SIGTERM and SIGINT, each time
    std::function<void()> on_reload;  // SIGHUP
  };
  // BlockSignals must have been called.
  explicit SignalWaiter(Callbacks callbacks);
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

 private:
  void Wait();

  const Callbacks callbacks_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_SIGNALS_H_
