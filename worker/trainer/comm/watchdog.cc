#include "worker/trainer/comm/watchdog.h"

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace evenstep::trainer {

void RunWatched(const WatchLimits& limits, absl::string_view what,
                const std::function<void()>& body) {
  absl::Notification over;
  const std::string why =
      absl::StrCat(what, " did not return within ",
                   absl::FormatDuration(limits.limit), ": ending the process");
  std::thread watchdog([&] {
    if (over.WaitForNotificationWithTimeout(limits.limit)) return;
    limits.end_process(why);
  });
  body();
  over.Notify();
  watchdog.join();
}

}  // namespace evenstep::trainer
