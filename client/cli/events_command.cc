#include <limits>
#include <variant>

#include "client/cli/commands.h"

namespace evenstep::cli {
namespace {

// Without --follow a stream is read until it has told of the job's present
// state and then been quiet for this long.
constexpr absl::Duration kQuiet = absl::Milliseconds(500);
constexpr int kMaxQuietPeriods = 20;

class EventReader {
 public:
  EventReader(Environment& environment, Output& output, client::Client& client,
              const client::Job& job)
      : environment_(environment), output_(output), client_(client), job_(job) {
    cursor_.after_step = std::numeric_limits<int64_t>::max();
  }

  absl::Status ReadUntil(absl::Time deadline) {
    client::StreamOptions stream;
    stream.stop = environment_.interrupted;
    stream.deadline = deadline;
    return client_.Watch(
        job_.id, &cursor_, stream, [this](const client::WatchItem& item) {
          if (const auto* event = std::get_if<client::JobEvent>(&item)) {
            Show(*event);
          }
          return output_.follow();
        });
  }

  absl::Status ReadSoFar() {
    absl::Status status;
    for (int i = 0; i < kMaxQuietPeriods && (i == 0 || !told_state_); ++i) {
      status = ReadUntil(absl::Now() + kQuiet);
      if (!absl::IsDeadlineExceeded(status)) return status;
    }
    return told_state_ ? absl::OkStatus() : status;
  }

 private:
  void Show(const client::JobEvent& event) {
    told_state_ = told_state_ ||
                  (event.state == job_.state && event.attempt == job_.attempt);
    if (output_.structured()) {
      output_.StreamDocument(ToJson(event));
    } else {
      output_.Text(FormatEvent(event, output_.colour()) + "\n");
    }
  }

  Environment& environment_;
  Output& output_;
  client::Client& client_;
  const client::Job& job_;
  client::WatchCursor cursor_;
  bool told_state_ = false;
};

}  // namespace

ExitCode Events(Environment& environment, const GlobalOptions& global,
                const EventsCommand& command) {
  Output output(environment, global);
  auto client = ConnectFor(environment, global);
  auto job = client->Get(command.job_id);
  if (!job.ok()) return output.Fail(job.status());
  EventReader reader(environment, output, *client, *job);
  const absl::Status status = command.follow
                                  ? reader.ReadUntil(absl::InfiniteFuture())
                                  : reader.ReadSoFar();
  if (status.ok()) return kExitOk;
  if (environment.interrupted.stop_requested()) return kExitInterrupted;
  return output.Fail(status);
}

}  // namespace evenstep::cli
