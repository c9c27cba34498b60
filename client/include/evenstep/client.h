#ifndef EVENSTEP_CLIENT_H_
#define EVENSTEP_CLIENT_H_

// The C++ SDK: submit training jobs to a coordinator and watch them. Includes
// neither gRPC, protobuf nor torch.
//
// Threads: a Client may be used from several threads at once. Calls block, and
// handlers run on the thread that made the call.
// Errors: absl::Status values with canonical codes. Every call may return
//   INVALID_ARGUMENT   an argument breaks a rule; text that is not UTF-8
//   UNAVAILABLE        the coordinator cannot be reached; retried first
//   DEADLINE_EXCEEDED  call_timeout or StreamOptions::deadline has passed
//   CANCELLED          stopped by the caller's token
// and those that are named at the call. ErrorReason gives the machine-readable
// reason.
//
//   ClientOptions options;
//   options.coordinator = "127.0.0.1:7070";
//   std::unique_ptr<Client> client = Connect(options);
//   SubmitOptions job;
//   job.job_yaml = "name: demo\ndata: {source: 'text:/usr/include'}\n";
//   absl::StatusOr<SubmitResult> submitted = client->Submit(job);
//   if (!submitted.ok()) return submitted.status();
//   absl::StatusOr<Job> done = client->Wait(submitted->job.id, {});
//
// examples/sdk_submit is a whole program. FakeClient
// (evenstep/testing/fake_client.h) stands in for a coordinator in tests.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "evenstep/job.h"

namespace evenstep::client {

struct ClientOptions {
  std::string coordinator = "127.0.0.1:7070";  // HOST:PORT
  absl::Duration call_timeout = absl::Seconds(10);
  // How long a call is tried again while the coordinator cannot be reached.
  absl::Duration retry_budget = absl::Seconds(10);
  // The same for a stream that was running and broke: long enough for a
  // restart of the coordinator.
  absl::Duration reconnect_budget = absl::Minutes(10);
  // Told about each retry with its cause; may be empty.
  std::function<void(const absl::Status&)> on_retry;
  std::stop_token stop;  // ends every call of the client
};

struct SubmitOptions {
  std::string job_id;    // [a-z][a-z0-9-]{0,62}; empty: a new one is made
  std::string job_yaml;  // the text of a job file, not its path
  std::string file_name = "job.yaml";  // what messages call it
  std::string base_dir = ".";          // relative data paths start here
  std::vector<std::string> overrides;  // "a.b=value", over the file
  // What messages call overrides[i]; none or empty: "--set KEY".
  std::vector<std::string> override_names = {};
};

struct SubmitResult {
  Job job;
  bool created = true;  // false: the same job had been submitted before
};

struct ListOptions {
  std::vector<JobState> states;  // empty: all
  int page_size = 100;
  std::string page_token;  // empty: from the start
};

struct JobPage {
  std::vector<Job> jobs;        // newest first, without recent_steps
  std::string next_page_token;  // empty: no more
  int64_t num_jobs = 0;         // in one of the states, of all pages together
};

// Where Watch resumes. The caller may store it and come back later.
struct WatchCursor {
  int64_t after_sequence = 0;  // events after this one
  int64_t after_step = -1;     // steps after this one
  int attempt = -1;            // which counts its steps so; -1: unknown
};

using WatchItem = std::variant<JobEvent, StepSummary>;

// Where Logs resumes, in the same way.
struct LogCursor {
  int64_t after_sequence = 0;  // lines after this one
};

enum class Follow { kContinue, kStop };

struct StreamOptions {
  std::stop_token stop;
  absl::Time deadline = absl::InfiniteFuture();
};

using WatchHandler = std::function<Follow(const WatchItem&)>;
using LogHandler = std::function<Follow(const LogLine&)>;

enum class LogMode { kSoFar, kFollow };

struct LogOptions {
  LogMode mode = LogMode::kSoFar;
  // Told how many lines the bounded log had dropped; may be empty.
  std::function<void(int64_t)> on_dropped;
};

class Client {
 public:
  virtual ~Client() = default;

  // Returns once the job is stored durably. Idempotent: retried with the same
  // id, so that a lost answer never makes two jobs. INVALID_ARGUMENT also for a
  // mistake in the job file, with its line; FAILED_PRECONDITION: the job can
  // never fit; ALREADY_EXISTS: another job has this id; RESOURCE_EXHAUSTED: the
  // coordinator's disk is full.
  virtual absl::StatusOr<SubmitResult> Submit(const SubmitOptions& options) = 0;
  // NOT_FOUND: no such job.
  virtual absl::StatusOr<Job> Get(const std::string& job_id) = 0;
  virtual absl::StatusOr<JobPage> List(const ListOptions& options) = 0;
  // Asks a job to stop. Idempotent; a finished job stays as it is. NOT_FOUND.
  virtual absl::StatusOr<Job> Cancel(const std::string& job_id,
                                     const std::string& message) = 0;

  // Calls the handler, on this thread, with events and steps after *cursor in
  // order, and moves the cursor past each item before its call. OK when the job
  // has ended or the handler stopped. A lost connection neither loses nor
  // repeats items. NOT_FOUND: no such job.
  virtual absl::Status Watch(const std::string& job_id, WatchCursor* cursor,
                             const StreamOptions& stream,
                             const WatchHandler& handler) = 0;
  // The same for log lines. kSoFar ends with OK after the last stored line.
  virtual absl::Status Logs(const std::string& job_id, LogCursor* cursor,
                            const LogOptions& options,
                            const StreamOptions& stream,
                            const LogHandler& handler) = 0;

  // OK when the coordinator serves.
  virtual absl::Status Health() = 0;
  // Version of the coordinator; UNIMPLEMENTED when it does not say.
  virtual absl::StatusOr<std::string> ServerVersion() = 0;

  // Blocks until the job has ended, whatever the outcome, and returns it.
  // NOT_FOUND: no such job.
  absl::StatusOr<Job> Wait(const std::string& job_id,
                           const StreamOptions& stream);
};

// Never fails and does not wait: the first call finds out whether the
// coordinator can be reached.
std::unique_ptr<Client> Connect(const ClientOptions& options);

// Machine-readable reason of an error, for example INFEASIBLE_PLAN; empty when
// there is none.
std::string ErrorReason(const absl::Status& status);

// A Submit that failed without its request ever having left this machine:
// nothing was stored. A false result is inconclusive.
bool NeverSent(const absl::Status& status);

// A new id for a job of this name: "NAME-" and random letters and digits.
std::string MakeJobId(absl::string_view name);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_H_
