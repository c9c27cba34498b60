#ifndef EVENSTEP_WORKER_AGENT_LOG_BATCHER_H_
#define EVENSTEP_WORKER_AGENT_LOG_BATCHER_H_

// Gathers the log lines of one attempt's ranks into messages of a bounded size:
// one is due when it is full, or when the owner's timer says so. On the agent's
// loop; pure.

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "evenstep/v1/agent.pb.h"
#include "worker/agent/output_reader.h"

namespace evenstep::agent {

class LogBatcher {
 public:
  // `send` gets batches with lines, without an attempt id.
  explicit LogBatcher(std::function<void(v1::LogBatch)> send);

  // Also tells of dropped lines, as a line of its own.
  void Add(int rank, int attempt, absl::Time now, const OutputLines& output);
  // Sends what is there.
  void Flush();
  bool empty() const { return batch_.lines().empty(); }

 private:
  void AddLine(int rank, int attempt, absl::Time now, const std::string& text);

  const std::function<void(v1::LogBatch)> send_;
  v1::LogBatch batch_;
  size_t batch_bytes_ = 0;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_LOG_BATCHER_H_
