#include "coordinator/testing/fake_ranks.h"

#include "wire/job_spec_proto.h"

namespace evenstep::coordinator::testing {
namespace {

constexpr int64_t kFixedNs = 1000;
constexpr double kNsPerToken = 100;

}  // namespace

v1::SubmitRequest SmallJob(const std::string& job_id, int ranks,
                           int64_t steps) {
  jobspec::JobSpec spec;
  spec.name = "small";
  spec.data.source = "text:/data";
  spec.data.max_length = 64;
  spec.batch_samples = kBatchSamples;
  spec.steps = steps;
  spec.ranks = ranks;
  spec.look_ahead = 4;
  spec.model.kv_heads = spec.model.heads;
  spec.memory.tokens_per_rank = 64;
  spec.timeouts.start = absl::Seconds(60);
  spec.timeouts.stop = absl::Seconds(5);
  v1::SubmitRequest request;
  request.set_job_id(job_id);
  *request.mutable_spec() = wire::ToProto(spec);
  return request;
}

v1::AgentMessage Hello(const std::string& node, const std::string& incarnation,
                       int slots) {
  v1::AgentMessage message;
  message.mutable_hello()->set_node(node);
  message.mutable_hello()->set_incarnation(incarnation);
  message.mutable_hello()->set_slots(slots);
  message.mutable_hello()->set_folder_id("folder of " + node);
  return message;
}

v1::AgentMessage Ready(const v1::AttemptId& id) {
  v1::AgentMessage message;
  *message.mutable_ready()->mutable_attempt() = id;
  return message;
}

v1::AgentMessage Data(const v1::AttemptId& id, int rank) {
  v1::AgentMessage message;
  v1::RankData* const data = message.mutable_data();
  *data->mutable_attempt() = id;
  data->set_rank(rank);
  data->mutable_data()->set_num_samples(100);
  data->mutable_data()->set_content_key(7);
  return message;
}

v1::AgentMessage Costs(const v1::AttemptId& id) {
  planner::TimeModel costs;
  costs.micro_batch_fixed_ns = kFixedNs;
  costs.linear_ns_per_token = kNsPerToken;
  v1::AgentMessage message;
  *message.mutable_costs()->mutable_attempt() = id;
  *message.mutable_costs()->mutable_costs() = wire::ToProto(costs);
  return message;
}

v1::AgentMessage Lengths(const v1::AttemptId& id, int rank, int world,
                         int64_t step) {
  v1::AgentMessage message;
  *message.mutable_lengths()->mutable_attempt() = id;
  v1::LengthReport* const report = message.mutable_lengths()->mutable_report();
  report->set_generation(id.generation());
  report->set_step(step);
  report->set_rank(rank);
  for (int i = rank; i < kBatchSamples; i += world) {
    report->add_sample_ids(step * kBatchSamples + i);
    report->add_lengths(10 + 3 * i);
    report->add_trained_tokens(10 + 3 * i);
  }
  return message;
}

v1::AgentMessage Started(const v1::AttemptId& id, int rank) {
  v1::AgentMessage message;
  *message.mutable_started()->mutable_attempt() = id;
  message.mutable_started()->set_rank(rank);
  return message;
}

int64_t TokensOfRank(const v1::MicroBatch& micro_batch) {
  int64_t tokens = 0;
  for (const int64_t length : micro_batch.lengths()) tokens += length;
  return (tokens + micro_batch.degree() - 1) / micro_batch.degree();
}

v1::AgentMessage Step(const v1::AttemptId& id, int rank,
                      const v1::StepPlan& plan) {
  v1::AgentMessage message;
  *message.mutable_step()->mutable_attempt() = id;
  v1::StepReport* const report = message.mutable_step()->mutable_report();
  report->set_generation(id.generation());
  report->set_step(plan.step());
  report->set_rank(rank);
  int64_t padded_tokens = 0;
  for (int i = 0; i < plan.micro_batches_size(); ++i) {
    const v1::MicroBatch& micro_batch = plan.micro_batches(i);
    if (rank < micro_batch.first_rank() ||
        rank >= micro_batch.first_rank() + micro_batch.degree()) {
      continue;
    }
    report->add_micro_batches()->set_index(i);
    padded_tokens += TokensOfRank(micro_batch);
  }
  report->set_padded_tokens(padded_tokens);
  report->set_step_ns(1000000);
  report->set_gate_ns(5000);
  report->set_loss(5.0 - 0.1 * static_cast<double>(plan.step()));
  report->set_trained_tokens(plan.trained_tokens());
  report->set_plan_lead(1);
  return message;
}

void TimeComputing(const v1::StepPlan& plan, double slowness,
                   v1::StepReport* report) {
  for (v1::MicroBatchTime& time : *report->mutable_micro_batches()) {
    const v1::MicroBatch& micro_batch = plan.micro_batches(time.index());
    double tokens = 0;
    for (const int64_t length : micro_batch.lengths()) {
      tokens += static_cast<double>(length);
    }
    const double ns = kFixedNs + kNsPerToken * tokens / micro_batch.degree();
    time.set_compute_ns(static_cast<int64_t>(slowness * ns));
  }
}

v1::AgentMessage Log(const v1::AttemptId& id, int rank,
                     const std::string& text) {
  v1::AgentMessage message;
  *message.mutable_logs()->mutable_attempt() = id;
  v1::LogLine* const line = message.mutable_logs()->add_lines();
  line->set_rank(rank);
  line->set_text(text);
  return message;
}

v1::AgentMessage CleanExit(const v1::AttemptId& id, int rank, int64_t steps) {
  v1::AgentMessage message;
  v1::TrainerExited* const exited = message.mutable_exited();
  *exited->mutable_attempt() = id;
  exited->set_rank(rank);
  exited->set_clean(true);
  exited->set_steps_done(steps);
  if (rank == 0) {
    exited->set_weights_path("/out/model.safetensors");
    exited->set_weights_steps(steps);
  }
  return message;
}

v1::AgentMessage Killed(const v1::AttemptId& id, int rank, int signal) {
  v1::AgentMessage message;
  *message.mutable_exited()->mutable_attempt() = id;
  message.mutable_exited()->set_rank(rank);
  message.mutable_exited()->set_signal(signal);
  return message;
}

v1::AgentMessage CollectiveFailed(const v1::AttemptId& id, int rank) {
  v1::AgentMessage message;
  *message.mutable_abandon()->mutable_attempt() = id;
  message.mutable_abandon()->set_rank(rank);
  message.mutable_abandon()->set_reason("COLLECTIVE_FAILED");
  message.mutable_abandon()->set_message("connection closed by peer");
  return message;
}

v1::AgentMessage AgentStopping(const v1::AttemptId& id) {
  v1::AgentMessage message;
  *message.mutable_abandon()->mutable_attempt() = id;
  message.mutable_abandon()->set_rank(-1);
  message.mutable_abandon()->set_reason("AGENT_STOPPING");
  return message;
}

v1::AgentMessage Ended(const v1::AttemptId& id) {
  v1::AgentMessage message;
  *message.mutable_ended()->mutable_attempt() = id;
  return message;
}

}  // namespace evenstep::coordinator::testing
