#include "base/signals.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace evenstep {
namespace {

// Ends the waiter's thread; sent to that thread alone.
constexpr int kWakeSignal = SIGUSR2;

sigset_t WaitedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, kWakeSignal}) {
    sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

void BlockSignals() {
  const sigset_t set = WaitedSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  IgnoreWriteSignals();
}

void BlockSigtermOnly() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, kWakeSignal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  IgnoreWriteSignals();
}

void IgnoreWriteSignals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

SignalWaiter::SignalWaiter(Callbacks callbacks)
    : callbacks_(std::move(callbacks)), thread_([this] { Wait(); }) {
  pthread_setname_np(thread_.native_handle(), "signals");
}

SignalWaiter::~SignalWaiter() {
  done_ = true;
  pthread_kill(thread_.native_handle(), kWakeSignal);
  thread_.join();
}

void SignalWaiter::Wait() {
  const sigset_t set = WaitedSignals();
  while (!done_) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0 || done_) continue;
    if (signal == SIGHUP) {
      if (callbacks_.on_reload) callbacks_.on_reload();
    } else if (signal != kWakeSignal) {
      if (callbacks_.on_stop) callbacks_.on_stop();
    }
  }
}

}  // namespace evenstep
