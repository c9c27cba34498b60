#include "client/cli/local/child_watch.h"

#include <pthread.h>

#include <utility>

#include "client/retry.h"

namespace evenstep::cli {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(200);

}  // namespace

ChildWatch::ChildWatch(LocalCluster& cluster, std::stop_source on_loss)
    : cluster_(cluster),
      on_loss_(std::move(on_loss)),
      thread_([this](const std::stop_token& finished) { Run(finished); }) {
  pthread_setname_np(thread_.native_handle(), "children");
}

ChildWatch::~ChildWatch() { Finish().IgnoreError(); }

void ChildWatch::Run(const std::stop_token& finished) {
  while (!finished.stop_requested()) {
    status_ = cluster_.CheckChildren();
    if (!status_.ok()) {
      on_loss_.request_stop();
      return;
    }
    client::SleepUnlessStopped(kPollInterval, finished);
  }
}

absl::Status ChildWatch::Finish() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  return status_;
}

}  // namespace evenstep::cli
