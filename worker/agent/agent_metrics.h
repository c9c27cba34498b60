#ifndef EVENSTEP_WORKER_AGENT_AGENT_METRICS_H_
#define EVENSTEP_WORKER_AGENT_AGENT_METRICS_H_

// The agent's counters, and the port on which Prometheus reads them.
// Thread-safe. Owned by the agent.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace evenstep::agent {

class AgentMetrics {
 public:
  AgentMetrics();
  ~AgentMetrics();

  // Serves /metrics on HOST:PORT and returns the address in use. UNAVAILABLE:
  // the port cannot be had.
  absl::StatusOr<std::string> Serve(const std::string& listen);

  // How a trainer ended: "clean", "status" or "signal".
  prometheus::Counter& TrainerExits(const std::string& how);
  // Why a message was thrown away: "old_generation", "unknown_attempt",
  // "queue_full" or "too_large".
  prometheus::Counter& MessagesDropped(const std::string& reason);

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& exits_;
  prometheus::Family<prometheus::Counter>& dropped_;

 public:
  prometheus::Gauge& trainers;   // processes that live
  prometheus::Gauge& connected;  // 1: the coordinator has answered
  prometheus::Counter& reconnects;
  prometheus::Counter& messages_sent;
  prometheus::Counter& messages_received;
  prometheus::Counter& log_lines;
  prometheus::Counter& log_lines_dropped;
  prometheus::Counter& log_bytes_not_kept;
  prometheus::Counter& leftovers_ended;

 private:
  std::string address_;                           // of exposer_
  std::unique_ptr<prometheus::Exposer> exposer_;  // stops first
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_AGENT_METRICS_H_
