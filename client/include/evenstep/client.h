#ifndef EVENSTEP_CLIENT_H_
#define EVENSTEP_CLIENT_H_

// The C++ SDK: submit training jobs to a coordinator and watch them. Includes
// neither gRPC, protobuf nor torch. A Client may be used from several threads
// at once; calls block. Errors are absl::Status values with canonical codes:
// INVALID_ARGUMENT (the job breaks a rule), FAILED_PRECONDITION (it can never
// fit), NOT_FOUND, ALREADY_EXISTS, UNAVAILABLE (cannot be reached; retried
// first), DEADLINE_EXCEEDED, CANCELLED (stopped by the caller's token).
// ErrorReason gives the machine-readable reason.
//
//   ClientOptions options;
//   options.coordinator = "127.0.0.1:7070";
//   std::unique_ptr<Client> client = Connect(options);
//   SubmitOptions job;
//   job.job_file = "name: demo\ndata: {source: 'text:/usr/include'}\n";
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
  std::string job_file;  // YAML text
  std::string file_name = "job.yaml";  // for messages
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

// Where a stream goes on. The caller may store it and come back later.
struct WatchCursor {
  int64_t after_sequence = 0;  // events after this one
  int64_t after_step = -1;     // steps after this one
  int attempt = -1;            // which counts its steps so; -1: unknown
};

// Exactly one of the two is set.
struct WatchItem {
  const JobEvent* event = nullptr;
  const StepSummary* step = nullptr;
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
  int64_t after_sequence = 0;
  LogMode mode = LogMode::kSoFar;
  // Told how many lines the bounded log had dropped; may be empty.
  std::function<void(int64_t)> on_dropped;
};

class Client {
 public:
  virtual ~Client() = default;

  // Returns once the job is stored durably. Idempotent: retried with the same
  // id, so that a lost answer never makes two jobs.
  virtual absl::StatusOr<SubmitResult> Submit(const SubmitOptions& options) = 0;
  virtual absl::StatusOr<Job> Get(const std::string& job_id) = 0;
  virtual absl::StatusOr<JobPage> List(const ListOptions& options) = 0;
  // Asks a job to stop. Idempotent; a finished job stays as it is.
  virtual absl::StatusOr<Job> Cancel(const std::string& job_id,
                                     const std::string& message) = 0;

  // Calls the handler, on this thread, with events and steps after *cursor in
  // order, moving the cursor on after each. OK when the job has ended or the
  // handler stopped. Survives a lost connection without loss or repeats.
  virtual absl::Status Watch(const std::string& job_id, WatchCursor* cursor,
                             const StreamOptions& stream,
                             const WatchHandler& handler) = 0;
  // The same for log lines.
  virtual absl::Status Logs(const std::string& job_id,
                            const LogOptions& options,
                            const StreamOptions& stream,
                            const LogHandler& handler) = 0;

  // OK when the coordinator serves.
  virtual absl::Status Health() = 0;
  // Version of the coordinator; UNIMPLEMENTED when it does not say.
  virtual absl::StatusOr<std::string> ServerVersion() = 0;

  // Blocks until the job has ended, whatever the outcome, and returns it.
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
// nothing was stored. False says nothing.
bool NeverSent(const absl::Status& status);

// A new id for a job of this name: "NAME-" and random letters and digits.
std::string MakeJobId(absl::string_view name);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_H_
