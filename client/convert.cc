#include "client/convert.h"

#include "client/submission.h"
#include "wire/cost_proto.h"
#include "wire/job_spec_proto.h"

namespace evenstep::client {
namespace {

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

Evaluation ToEvaluation(const v1::EvaluationSummary& proto) {
  return {proto.step(), proto.loss(), proto.trained_tokens(), proto.seconds()};
}

Totals ToTotals(const v1::JobTotals& proto) {
  Totals totals;
  totals.step_seconds = proto.step_seconds();
  totals.idle_share = proto.idle_share();
  totals.coordination_share = proto.coordination_share();
  totals.trained_tokens = proto.trained_tokens();
  totals.padding_ratio = proto.padding_ratio();
  totals.steps_with_plan_lead = proto.steps_with_plan_lead();
  totals.steps_after_fourth = proto.steps_after_fourth();
  totals.plans_refused = proto.plans_refused();
  totals.prediction_error = proto.prediction_error();
  totals.cost_drift = proto.cost_drift();
  if (proto.has_last_evaluation()) {
    totals.last_evaluation = ToEvaluation(proto.last_evaluation());
  }
  if (proto.has_best_evaluation()) {
    totals.best_evaluation = ToEvaluation(proto.best_evaluation());
  }
  return totals;
}

// A spec of a newer coordinator may hold what this SDK cannot read; its plain
// fields are shown all the same.
void FillFromWire(const v1::JobSpec& proto, Job* job) {
  auto spec = wire::FromProto(proto);
  if (spec.ok()) return FillFromSpec(*spec, job);
  job->name = proto.name();
  job->policy = proto.policy();
  job->data_source = proto.data().source();
  job->ranks = proto.ranks();
  job->num_steps = proto.steps();
}

void FillProgress(const v1::Job& proto, Job* job) {
  job->steps_done = proto.steps_done();
  for (const v1::StepSummary& step : proto.recent_steps()) {
    job->recent_steps.push_back(FromProto(step));
  }
  if (proto.has_totals()) job->totals = ToTotals(proto.totals());
  if (proto.has_data()) job->data = FromProto(proto.data());
  if (proto.has_costs()) {
    job->costs = wire::CostsFromProto<Costs>(proto.costs());
  }
  job->weights_path = proto.weights_path();
  job->weights_node = proto.weights_node();
  job->weights_steps = proto.weights_steps();
  job->weights_note = proto.weights_note();
  job->emulated_link = proto.emulated_link();
}

}  // namespace

// The SDK's states stand in the order of the wire's.
JobState FromProto(v1::JobState state) {
  if (state < v1::JOB_STATE_QUEUED || state > v1::JOB_STATE_CANCELLED) {
    return JobState::kUnknown;
  }
  return static_cast<JobState>(state);
}

v1::JobState ToProto(JobState state) {
  return static_cast<v1::JobState>(state);
}

static_assert(static_cast<int>(JobState::kQueued) == v1::JOB_STATE_QUEUED);
static_assert(static_cast<int>(JobState::kStarting) == v1::JOB_STATE_STARTING);
static_assert(static_cast<int>(JobState::kRunning) == v1::JOB_STATE_RUNNING);
static_assert(static_cast<int>(JobState::kRecovering) ==
              v1::JOB_STATE_RECOVERING);
static_assert(static_cast<int>(JobState::kStopping) == v1::JOB_STATE_STOPPING);
static_assert(static_cast<int>(JobState::kSucceeded) ==
              v1::JOB_STATE_SUCCEEDED);
static_assert(static_cast<int>(JobState::kFailed) == v1::JOB_STATE_FAILED);
static_assert(static_cast<int>(JobState::kCancelled) ==
              v1::JOB_STATE_CANCELLED);

Job FromProto(const v1::Job& proto) {
  Job job;
  job.id = proto.job_id();
  FillFromWire(proto.spec(), &job);
  job.state = FromProto(proto.state());
  job.reason = proto.reason();
  job.message = proto.message();
  job.submitted = ToTime(proto.submitted());
  if (proto.has_started()) job.started = ToTime(proto.started());
  if (proto.has_ended()) job.ended = ToTime(proto.ended());
  job.attempt = proto.attempt();
  job.generation = proto.generation();
  job.queue_position = proto.queue_position();
  for (const v1::Placement& placement : proto.placements()) {
    job.placements.push_back(
        {placement.node(), placement.first_rank(), placement.num_ranks()});
  }
  FillProgress(proto, &job);
  return job;
}

// The wire has 0 for a number of bytes that is not known.
std::optional<int64_t> KnownBytes(int64_t bytes) {
  if (bytes == 0) return std::nullopt;
  return bytes;
}

StepSummary FromProto(const v1::StepSummary& proto) {
  StepSummary step;
  step.step = proto.step();
  step.loss = proto.loss();
  step.step_seconds = proto.step_seconds();
  step.predicted_seconds = proto.predicted_seconds();
  step.trained_tokens = proto.trained_tokens();
  step.idle_share = proto.idle_share();
  step.predicted_imbalance = proto.predicted_imbalance();
  step.padding_ratio = proto.padding_ratio();
  step.gate_seconds = proto.gate_seconds();
  step.gradient_norm = proto.gradient_norm();
  step.plan_lead = proto.plan_lead();
  step.policy = proto.policy();
  step.lower_bound_seconds = proto.lower_bound_seconds();
  step.num_micro_batches = proto.num_micro_batches();
  step.highest_degree = proto.highest_degree();
  step.slowest_cpu_seconds = proto.slowest_cpu_seconds();
  step.mean_cpu_seconds = proto.mean_cpu_seconds();
  step.predicted_activation_bytes =
      KnownBytes(proto.predicted_activation_bytes());
  step.peak_tensor_bytes = KnownBytes(proto.peak_tensor_bytes());
  step.peak_activation_bytes = KnownBytes(proto.peak_activation_bytes());
  step.recompute_ratio = proto.recompute_ratio();
  step.groups_live = proto.groups_live();
  step.groups_opened = proto.groups_opened();
  step.group_opening_seconds = proto.group_opening_seconds();
  if (proto.has_evaluation()) {
    step.evaluation = ToEvaluation(proto.evaluation());
  }
  return step;
}

JobEvent FromProto(const v1::JobEvent& proto) {
  JobEvent event;
  event.sequence = proto.sequence();
  event.time = ToTime(proto.time());
  event.state = FromProto(proto.state());
  event.reason = proto.reason();
  event.message = proto.message();
  event.attempt = proto.attempt();
  return event;
}

DataSummary FromProto(const v1::DataSummary& proto) {
  DataSummary data;
  data.num_samples = proto.num_samples();
  data.num_too_long = proto.num_too_long();
  data.num_bad = proto.num_bad();
  data.num_truncated = proto.num_truncated();
  data.longest_tokens = proto.longest();
  data.total_tokens = proto.total_tokens();
  data.warnings.assign(proto.warnings().begin(), proto.warnings().end());
  data.evaluation_samples = proto.evaluation_samples();
  data.evaluation_tokens = proto.evaluation_tokens();
  data.evaluation_too_long = proto.evaluation_too_long();
  data.evaluation_bad = proto.evaluation_bad();
  data.evaluation_truncated = proto.evaluation_truncated();
  data.evaluation_untrained = proto.evaluation_untrained();
  data.indexed_bytes = proto.indexed_bytes();
  data.bytes_to_index = proto.bytes_to_index();
  data.largest_token = proto.largest_token();
  data.num_hidden_files = proto.num_hidden_files();
  data.num_own_files = proto.num_own_files();
  data.num_tool_files = proto.num_tool_files();
  data.num_links = proto.num_links();
  data.num_json_files = proto.num_json_files();
  return data;
}

LogLine FromProto(const v1::LogLine& proto) {
  LogLine line;
  line.sequence = proto.sequence();
  line.time = ToTime(proto.time());
  line.rank = proto.rank();
  line.text = proto.text();
  line.attempt = proto.attempt();
  return line;
}

}  // namespace evenstep::client
