#ifndef EVENSTEP_CLIENT_GRPC_CLIENT_H_
#define EVENSTEP_CLIENT_GRPC_CLIENT_H_

// The real Client: JobService over one channel. Thread-safe: the stub and the
// options never change after construction. Streams are read on the caller's
// thread; a stop token cancels them from elsewhere.

#include <memory>
#include <string>

#include "client/retry.h"
#include "evenstep/client.h"
#include "evenstep/v1/job.grpc.pb.h"

namespace evenstep::client {

class GrpcClient : public Client {
 public:
  explicit GrpcClient(const ClientOptions& options);

  absl::StatusOr<SubmitResult> Submit(const SubmitOptions& options) override;
  absl::StatusOr<Job> Get(const std::string& job_id) override;
  absl::StatusOr<JobPage> List(const ListOptions& options) override;
  absl::StatusOr<Job> Cancel(const std::string& job_id,
                             const std::string& message) override;
  absl::Status Watch(const std::string& job_id, WatchCursor* cursor,
                     const StreamOptions& stream,
                     const WatchHandler& handler) override;
  absl::Status Logs(const std::string& job_id, LogCursor* cursor,
                    const LogOptions& options, const StreamOptions& stream,
                    const LogHandler& handler) override;
  absl::Status Health() override;
  absl::StatusOr<std::string> ServerVersion() override;

 private:
  using Call = std::function<grpc::Status(grpc::ClientContext*)>;
  // A unary call with a deadline, made again while UNAVAILABLE.
  absl::Status Unary(const Call& call) const;
  RetryOptions StreamRetry(const StreamOptions& stream) const;
  absl::StatusOr<bool> HasEnded(const std::string& job_id);
  absl::Status OpenWatch(const std::string& job_id, const WatchCursor& cursor,
                         const StreamOptions& stream,
                         const WatchHandler& handler);
  absl::Status OpenLogs(const std::string& job_id, const LogCursor& cursor,
                        const LogOptions& options, const StreamOptions& stream,
                        const LogHandler& handler);

  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::JobService::Stub> stub_;
};

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_GRPC_CLIENT_H_
