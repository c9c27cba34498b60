#include "worker/agent/agent_metrics.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "base/port_knocker.h"

namespace evenstep::agent {
namespace {

prometheus::Family<prometheus::Counter>& CounterFamily(
    prometheus::Registry& registry, const std::string& name,
    const std::string& help) {
  return prometheus::BuildCounter()
      .Name("evenstep_agent_" + name)
      .Help(help)
      .Register(registry);
}

prometheus::Counter& Counter(prometheus::Registry& registry,
                             const std::string& name, const std::string& help) {
  return CounterFamily(registry, name, help).Add({});
}

prometheus::Gauge& Gauge(prometheus::Registry& registry,
                         const std::string& name, const std::string& help) {
  return prometheus::BuildGauge()
      .Name("evenstep_agent_" + name)
      .Help(help)
      .Register(registry)
      .Add({});
}

}  // namespace

AgentMetrics::AgentMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      exits_(CounterFamily(*registry_, "trainer_exits_total",
                           "Trainer processes that ended, by how.")),
      dropped_(CounterFamily(*registry_, "messages_dropped_total",
                             "Messages dropped, by reason.")),
      trainers(Gauge(*registry_, "trainers", "Trainer processes that live.")),
      connected(Gauge(*registry_, "connected",
                      "1 while the coordinator's stream is open.")),
      reconnects(Counter(*registry_, "reconnects_total",
                         "Streams to the coordinator after the first.")),
      messages_sent(Counter(*registry_, "messages_sent_total",
                            "Messages given to the coordinator's stream.")),
      messages_received(Counter(*registry_, "messages_received_total",
                                "Messages from the coordinator.")),
      log_lines(Counter(*registry_, "log_lines_total",
                        "Lines that trainers wrote and that are sent on.")),
      log_lines_dropped(Counter(*registry_, "log_lines_dropped_total",
                                "Lines above the rate or the queue's bound.")),
      log_bytes_not_kept(
          Counter(*registry_, "log_bytes_not_kept_total",
                  "Bytes of trainers' output missing from their log files: the "
                  "disk is full, or the file at its bound.")),
      leftovers_ended(
          Counter(*registry_, "leftovers_ended_total",
                  "Trainers of an earlier agent that were ended.")) {
  for (const char* how : {"clean", "status", "signal"}) TrainerExits(how);
  for (const char* reason : {"old_generation", "unknown_attempt", "queue_full",
                             "refused", "too_large"}) {
    MessagesDropped(reason);
  }
}

AgentMetrics::~AgentMetrics() {
  if (exposer_ == nullptr) return;
  const PortKnocker knocker(address_);
  exposer_ = nullptr;
}

absl::StatusOr<std::string> AgentMetrics::Serve(const std::string& listen) {
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(listen, 1);
    exposer_->RegisterCollectable(registry_);
    const std::string host = listen.substr(0, listen.rfind(':'));
    address_ = absl::StrCat(host, ":", exposer_->GetListeningPorts().at(0));
    return address_;
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on --metrics-listen=", listen, ": ",
                     error.what()));
  }
}

prometheus::Counter& AgentMetrics::TrainerExits(const std::string& how) {
  return exits_.Add({{"how", how}});
}

prometheus::Counter& AgentMetrics::MessagesDropped(const std::string& reason) {
  return dropped_.Add({{"reason", reason}});
}

}  // namespace evenstep::agent
