#include "coordinator/server/metrics.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/port_knocker.h"

namespace evenstep::coordinator {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// A step takes milliseconds on a laptop and minutes on a cluster.
const Buckets& StepBuckets() {
  static const auto* const buckets =
      new Buckets{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                  2.5,   5,    10,    25,   50,  100,  250};
  return *buckets;
}

const Buckets& PlanBuckets() {
  static const auto* const buckets =
      new Buckets{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                  0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5};
  return *buckets;
}

const Buckets& WaitBuckets() {
  static const auto* const buckets =
      new Buckets{0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400};
  return *buckets;
}

std::string Label(absl::string_view text) { return std::string(text); }

}  // namespace

Metrics::Gauges& Metrics::AddGauges(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
}

Metrics::Counters& Metrics::AddCounters(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
}

Metrics::Histograms& Metrics::AddHistograms(const char* name,
                                            const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(
      *registry_);
}

Metrics::Metrics(absl::string_view version)
    : registry_(std::make_shared<prometheus::Registry>()),
      jobs_(AddGauges("evenstep_jobs", "Jobs by state")),
      nodes_(AddGauges("evenstep_nodes", "Nodes by state of their stream")),
      slots_(AddGauges("evenstep_slots", "Slots of connected nodes")),
      jobs_finished_(
          AddCounters("evenstep_jobs_finished_total", "Jobs by result")),
      queue_wait_(AddHistograms("evenstep_queue_wait_seconds",
                                "From submit to the first attempt")),
      plan_duration_(AddHistograms("evenstep_plan_duration_seconds",
                                   "Planning and checking of one step")),
      plans_rejected_(AddCounters("evenstep_plan_rejected_total",
                                  "Plans replaced by the static policy")),
      estimates_refused_(AddCounters("evenstep_estimates_refused_total",
                                     "Measured costs or speeds that were "
                                     "refused; earlier ones were used")),
      stale_messages_(
          AddCounters("evenstep_stale_messages_total",
                      "Messages of an old generation or attempt, refused")),
      refused_messages_(AddCounters("evenstep_refused_messages_total",
                                    "Messages that broke a rule")),
      nodes_lost_(
          AddCounters("evenstep_nodes_lost_total", "Leases that ran out")),
      starts_lost_(
          AddCounters("evenstep_starts_lost_total",
                      "Attempts lost with a node before they had started")),
      store_errors_(AddCounters("evenstep_store_errors_total",
                                "Writes that the store refused")),
      rpcs_(AddCounters("evenstep_rpc_server_handled_total",
                        "Calls by method and code")),
      step_duration_(AddHistograms("evenstep_step_duration_seconds",
                                   "Gate exit to gate exit")),
      step_predicted_(AddGauges("evenstep_step_predicted_seconds",
                                "Predicted time of the last step")),
      prediction_error_(
          AddGauges("evenstep_step_prediction_error_ratio",
                    "|predicted - measured| step time / step time, attempt")),
      cost_drift_(AddGauges("evenstep_cost_drift_ratio",
                            "Computing in the last steps, measured / by the "
                            "first costs, - 1")),
      memory_(AddGauges("evenstep_step_memory_bytes",
                        "Last step, most of a rank: activations by the plan "
                        "(predicted) and measured, all live tensors (tensors); "
                        "0 where not known")),
      groups_live_(AddGauges("evenstep_groups_live",
                             "Groups of two or more ranks per rank, last step, "
                             "maximum over ranks")),
      groups_opened_(AddCounters("evenstep_groups_opened_total",
                                 "Groups opened, once for each rank in them")),
      group_opening_time_(
          AddCounters("evenstep_group_opening_seconds_total",
                      "Time of opening groups, slowest rank; in the gates")),
      imbalance_(AddGauges("evenstep_step_imbalance_ratio",
                           "Last step: 1 - mean busy time / step time by the "
                           "plan (predicted), idle share (measured)")),
      coordination_share_(AddGauges("evenstep_coordination_ratio",
                                    "Least gate time / step time, attempt")),
      padding_ratio_(AddGauges("evenstep_padding_ratio",
                               "Padding / padded tokens, last step")),
      plan_lead_(AddGauges("evenstep_plan_lead_steps",
                           "Plans held beyond the last step, least rank")),
      loss_(AddGauges("evenstep_loss", "Mean loss of the last step")),
      evaluation_loss_(AddGauges("evenstep_evaluation_loss",
                                 "Mean loss of held-out samples, last "
                                 "evaluation; NaN before the first")),
      evaluation_time_(AddCounters(
          "evenstep_evaluation_seconds_total",
          "Time of evaluations, slowest rank; not part of the steps")),
      tokens_(AddCounters("evenstep_tokens_total", "Trained tokens")),
      steps_(AddCounters("evenstep_steps_total", "Committed steps")) {
  AddGauges("evenstep_build_info", "Always 1")
      .Add({{"version", Label(version)}})
      .Set(1);
  // There from the start, so that a rate over them never lacks its zero.
  nodes_lost_.Add({});
  starts_lost_.Add({});
  store_errors_.Add({});
}

Metrics::JobSeries& Metrics::SeriesOf(const std::string& job_id) {
  const auto known = series_.find(job_id);
  if (known != series_.end()) return known->second;
  const prometheus::Labels labels = {{"job", job_id}};
  JobSeries series;
  series.step_duration = &step_duration_.Add(labels, StepBuckets());
  series.step_predicted = &step_predicted_.Add(labels);
  series.prediction_error = &prediction_error_.Add(labels);
  series.cost_drift = &cost_drift_.Add(labels);
  series.memory_predicted =
      &memory_.Add({{"job", job_id}, {"kind", "predicted"}});
  series.memory_measured =
      &memory_.Add({{"job", job_id}, {"kind", "measured"}});
  series.memory_tensors = &memory_.Add({{"job", job_id}, {"kind", "tensors"}});
  series.groups_live = &groups_live_.Add(labels);
  series.groups_opened = &groups_opened_.Add(labels);
  series.group_opening_time = &group_opening_time_.Add(labels);
  series.imbalance_predicted =
      &imbalance_.Add({{"job", job_id}, {"kind", "predicted"}});
  series.imbalance_measured =
      &imbalance_.Add({{"job", job_id}, {"kind", "measured"}});
  series.coordination_share = &coordination_share_.Add(labels);
  series.padding_ratio = &padding_ratio_.Add(labels);
  series.plan_lead = &plan_lead_.Add(labels);
  series.loss = &loss_.Add(labels);
  series.evaluation_loss = &evaluation_loss_.Add(labels);
  series.evaluation_loss->Set(std::numeric_limits<double>::quiet_NaN());
  series.evaluation_time = &evaluation_time_.Add(labels);
  series.tokens = &tokens_.Add(labels);
  series.steps = &steps_.Add(labels);
  return series_.emplace(job_id, series).first->second;
}

void Metrics::Remove(const JobSeries& series) {
  step_duration_.Remove(series.step_duration);
  step_predicted_.Remove(series.step_predicted);
  prediction_error_.Remove(series.prediction_error);
  cost_drift_.Remove(series.cost_drift);
  memory_.Remove(series.memory_predicted);
  memory_.Remove(series.memory_measured);
  memory_.Remove(series.memory_tensors);
  groups_live_.Remove(series.groups_live);
  groups_opened_.Remove(series.groups_opened);
  group_opening_time_.Remove(series.group_opening_time);
  imbalance_.Remove(series.imbalance_predicted);
  imbalance_.Remove(series.imbalance_measured);
  coordination_share_.Remove(series.coordination_share);
  padding_ratio_.Remove(series.padding_ratio);
  plan_lead_.Remove(series.plan_lead);
  loss_.Remove(series.loss);
  evaluation_loss_.Remove(series.evaluation_loss);
  evaluation_time_.Remove(series.evaluation_time);
  tokens_.Remove(series.tokens);
  steps_.Remove(series.steps);
}

void Metrics::ObserveStep(const std::string& job_id,
                          const v1::StepSummary& step,
                          const v1::JobTotals& totals) {
  JobSeries& series = SeriesOf(job_id);
  series.step_duration->Observe(step.step_seconds());
  series.step_predicted->Set(step.predicted_seconds());
  series.prediction_error->Set(totals.prediction_error());
  series.cost_drift->Set(totals.cost_drift());
  series.memory_predicted->Set(
      static_cast<double>(step.predicted_activation_bytes()));
  series.memory_measured->Set(
      static_cast<double>(step.peak_activation_bytes()));
  series.memory_tensors->Set(static_cast<double>(step.peak_tensor_bytes()));
  series.groups_live->Set(step.groups_live());
  series.groups_opened->Increment(
      static_cast<double>(std::max<int64_t>(0, step.groups_opened())));
  series.group_opening_time->Increment(
      std::max(0.0, step.group_opening_seconds()));
  series.imbalance_predicted->Set(step.predicted_imbalance());
  series.imbalance_measured->Set(step.idle_share());
  series.coordination_share->Set(totals.coordination_share());
  series.padding_ratio->Set(step.padding_ratio());
  series.plan_lead->Set(step.plan_lead());
  series.loss->Set(step.loss());
  if (step.has_evaluation()) {
    series.evaluation_loss->Set(step.evaluation().loss());
    series.evaluation_time->Increment(
        std::max(0.0, step.evaluation().seconds()));
  }
  series.tokens->Increment(std::max<double>(0, step.trained_tokens()));
  series.steps->Increment();
}

void Metrics::ObservePlan(const PlanOutcome& outcome) {
  const std::string policy =
      outcome.plan.ok() ? outcome.plan->policy() : "none";
  plan_duration_.Add({{"policy", policy}}, PlanBuckets())
      .Observe(absl::ToDoubleSeconds(outcome.duration));
  if (outcome.refusal.ok()) return;
  plans_rejected_
      .Add({{"reason", absl::StatusCodeToString(outcome.refusal.code())}})
      .Increment();
}

void Metrics::CountRefusedEstimate(absl::string_view source) {
  estimates_refused_.Add({{"source", Label(source)}}).Increment();
}

void Metrics::CountFinishedJob(JobState result) {
  jobs_finished_.Add({{"result", absl::AsciiStrToLower(JobStateName(result))}})
      .Increment();
}

void Metrics::ObserveQueueWait(absl::Duration wait) {
  queue_wait_.Add({}, WaitBuckets())
      .Observe(std::max(0.0, absl::ToDoubleSeconds(wait)));
}

void Metrics::CountStaleMessage(absl::string_view kind) {
  stale_messages_.Add({{"kind", Label(kind)}}).Increment();
}

void Metrics::CountRefusedMessage(absl::string_view kind,
                                  absl::string_view reason) {
  refused_messages_.Add({{"kind", Label(kind)}, {"reason", Label(reason)}})
      .Increment();
}

void Metrics::CountLostNode() { nodes_lost_.Add({}).Increment(); }

void Metrics::CountLostStart() { starts_lost_.Add({}).Increment(); }

void Metrics::CountStoreError() { store_errors_.Add({}).Increment(); }

void Metrics::CountRpc(absl::string_view method, absl::StatusCode code) {
  rpcs_
      .Add(
          {{"method", Label(method)}, {"code", absl::StatusCodeToString(code)}})
      .Increment();
}

void Metrics::SetJobs(const std::map<JobState, int>& jobs) {
  for (JobState state : kAllJobStates) {
    const auto count = jobs.find(state);
    jobs_.Add({{"state", absl::AsciiStrToLower(JobStateName(state))}})
        .Set(count == jobs.end() ? 0 : count->second);
  }
}

void Metrics::SetNodes(int num_connected, int num_disconnected) {
  nodes_.Add({{"state", "connected"}}).Set(num_connected);
  nodes_.Add({{"state", "disconnected"}}).Set(num_disconnected);
}

void Metrics::SetSlots(int total, int used) {
  slots_.Add({{"state", "free"}}).Set(total - used);
  slots_.Add({{"state", "used"}}).Set(used);
}

void Metrics::JobEnded(const std::string& job_id, absl::Duration now) {
  const auto series = series_.find(job_id);
  if (series != series_.end()) series->second.ended = now;
}

void Metrics::RemoveOld(absl::Duration now, absl::Duration retention) {
  for (auto it = series_.begin(); it != series_.end();) {
    const auto next = std::next(it);
    if (it->second.ended + retention <= now) {
      Remove(it->second);
      series_.erase(it);
    }
    it = next;
  }
}

MetricsServer::MetricsServer(const std::string& listen_address,
                             std::unique_ptr<prometheus::Exposer> exposer)
    : host_(listen_address.substr(0, listen_address.rfind(':'))),
      exposer_(std::move(exposer)),
      port_(exposer_->GetListeningPorts().front()) {}

MetricsServer::~MetricsServer() {
  const PortKnocker knocker(absl::StrCat(host_, ":", port_));
  exposer_ = nullptr;
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& listen_address,
    const std::shared_ptr<prometheus::Registry>& registry) {
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(listen_address, 1);
    exposer->RegisterCollectable(registry);
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(listen_address, std::move(exposer)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("metrics cannot listen on '", listen_address,
                     "' (is the port taken?): ", error.what()));
  }
}

}  // namespace evenstep::coordinator
