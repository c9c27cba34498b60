#include "examples/sdk_submit/submit_and_wait.h"

namespace evenstep::examples {

absl::StatusOr<client::Job> SubmitAndWait(client::Client& client,
                                          const std::string& job_file,
                                          std::ostream& out) {
  client::SubmitOptions options;
  options.job_file = job_file;
  auto submitted = client.Submit(options);
  if (!submitted.ok()) return submitted.status();
  const std::string& id = submitted->job.id;
  out << "submitted " << id << std::endl;

  client::WatchCursor cursor;
  const absl::Status watched =
      client.Watch(id, &cursor, {}, [&](const client::WatchItem& item) {
        if (item.event != nullptr) {
          out << client::JobStateName(item.event->state) << std::endl;
        }
        if (item.step != nullptr) {
          out << "step " << item.step->step << " loss " << item.step->loss
              << std::endl;
        }
        return client::Follow::kContinue;
      });
  if (!watched.ok()) return watched;
  return client.Get(id);
}

}  // namespace evenstep::examples
