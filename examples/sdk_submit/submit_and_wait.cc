#include "submit_and_wait.h"

namespace evenstep::examples {

absl::StatusOr<client::Job> SubmitAndWait(client::Client& client,
                                          const std::string& job_yaml,
                                          std::ostream& out) {
  client::SubmitOptions options;
  options.job_yaml = job_yaml;
  auto submitted = client.Submit(options);
  if (!submitted.ok()) return submitted.status();
  const std::string& id = submitted->job.id;
  out << "submitted " << id << std::endl;

  client::WatchCursor cursor;
  const absl::Status watched =
      client.Watch(id, &cursor, {}, [&](const client::WatchItem& item) {
        if (const auto* event = std::get_if<client::JobEvent>(&item)) {
          out << client::JobStateName(event->state) << std::endl;
        }
        if (const auto* step = std::get_if<client::StepSummary>(&item)) {
          out << "step " << step->step << " loss " << step->loss << std::endl;
        }
        return client::Follow::kContinue;
      });
  if (!watched.ok()) return watched;
  return client.Get(id);
}

}  // namespace evenstep::examples
