#ifndef EVENSTEP_COORDINATOR_SERVER_METRICS_H_
#define EVENSTEP_COORDINATOR_SERVER_METRICS_H_

// What Prometheus sees of the coordinator: every series is declared here, in
// base units, with bounded labels. Series of a job appear with its first step
// and go a while after its end. The functions for jobs belong to the event
// loop's thread; CountRpc and the exposer's scrapes may come from any.

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/steps/plan_work.h"
#include "evenstep/v1/job.pb.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace evenstep::coordinator {

class Metrics {
 public:
  explicit Metrics(absl::string_view version);

  // A step of a job has been committed.
  void ObserveStep(const std::string& job_id, const v1::StepSummary& step,
                   const v1::JobTotals& totals);
  void ObservePlan(const PlanOutcome& outcome);
  // Costs or speeds that no plan may be made with were dropped. `source`: plan,
  // refit or start.
  void CountRefusedEstimate(absl::string_view source);
  void CountFinishedJob(JobState result);
  void ObserveQueueWait(absl::Duration wait);
  // Of an old generation or attempt.
  void CountStaleMessage(absl::string_view kind);
  // Broke a rule of message_check.h, or of reports that must agree.
  void CountRefusedMessage(absl::string_view kind, absl::string_view reason);
  void CountLostNode();
  void CountLostStart();
  void CountStoreError();
  void CountRpc(absl::string_view method, absl::StatusCode code);

  void SetJobs(const std::map<JobState, int>& jobs);
  void SetNodes(int num_connected, int num_disconnected);
  void SetSlots(int total, int used);

  // Starts the clock of the job's series.
  void JobEnded(const std::string& job_id, absl::Duration now);
  // Removes series of jobs that ended longer ago than `retention`.
  void RemoveOld(absl::Duration now, absl::Duration retention);

  const std::shared_ptr<prometheus::Registry>& registry() const {
    return registry_;
  }

 private:
  using Gauges = prometheus::Family<prometheus::Gauge>;
  using Counters = prometheus::Family<prometheus::Counter>;
  using Histograms = prometheus::Family<prometheus::Histogram>;

  struct JobSeries {
    prometheus::Histogram* step_duration;
    prometheus::Gauge* step_predicted;
    prometheus::Gauge* prediction_error;
    prometheus::Gauge* cost_drift;
    prometheus::Gauge* memory_predicted;
    prometheus::Gauge* memory_measured;
    prometheus::Gauge* memory_tensors;
    prometheus::Gauge* groups_live;
    prometheus::Counter* groups_opened;
    prometheus::Counter* group_opening_time;
    prometheus::Gauge* imbalance_predicted;
    prometheus::Gauge* imbalance_measured;
    prometheus::Gauge* coordination_share;
    prometheus::Gauge* padding_ratio;
    prometheus::Gauge* plan_lead;
    prometheus::Gauge* loss;
    prometheus::Gauge* evaluation_loss;
    prometheus::Counter* evaluation_time;
    prometheus::Counter* tokens;
    prometheus::Counter* steps;
    absl::Duration ended = absl::InfiniteDuration();
  };
  JobSeries& SeriesOf(const std::string& job_id);
  void Remove(const JobSeries& series);
  Gauges& AddGauges(const char* name, const char* help);
  Counters& AddCounters(const char* name, const char* help);
  Histograms& AddHistograms(const char* name, const char* help);

  const std::shared_ptr<prometheus::Registry> registry_;
  Gauges& jobs_;
  Gauges& nodes_;
  Gauges& slots_;
  Counters& jobs_finished_;
  Histograms& queue_wait_;
  Histograms& plan_duration_;
  Counters& plans_rejected_;
  Counters& estimates_refused_;
  Counters& stale_messages_;
  Counters& refused_messages_;
  Counters& nodes_lost_;
  Counters& starts_lost_;
  Counters& store_errors_;
  Counters& rpcs_;
  Histograms& step_duration_;
  Gauges& step_predicted_;
  Gauges& prediction_error_;
  Gauges& cost_drift_;
  Gauges& memory_;
  Gauges& groups_live_;
  Counters& groups_opened_;
  Counters& group_opening_time_;
  Gauges& imbalance_;
  Gauges& coordination_share_;
  Gauges& padding_ratio_;
  Gauges& plan_lead_;
  Gauges& loss_;
  Gauges& evaluation_loss_;
  Counters& evaluation_time_;
  Counters& tokens_;
  Counters& steps_;
  std::map<std::string, JobSeries> series_;
};

// The HTTP end that Prometheus scrapes.
class MetricsServer {
 public:
  // UNAVAILABLE: the address cannot be had. Port 0: any free one.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& listen_address,
      const std::shared_ptr<prometheus::Registry>& registry);
  ~MetricsServer();
  int port() const { return port_; }

 private:
  MetricsServer(const std::string& listen_address,
                std::unique_ptr<prometheus::Exposer> exposer);

  const std::string host_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_METRICS_H_
