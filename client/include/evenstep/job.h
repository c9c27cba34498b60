#ifndef EVENSTEP_JOB_H_
#define EVENSTEP_JOB_H_

// What a coordinator says about jobs, as plain structs: the nouns of the SDK.
// Copies own their data and hold no reference into a Client. Like any plain
// struct, one object must not be written by one thread while another uses it.
//
// Units: durations are in seconds (`_seconds`) or nanoseconds (`_ns`), sizes in
// bytes, lengths in tokens, shares and ratios are fractions of 1. A number that
// may not be known is std::optional; one that is not optional is always
// measured or counted, and 0 is then a value like any other.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace evenstep::client {

enum class JobState {
  kUnknown,     // a newer coordinator sent a state this SDK does not know
  kQueued,      // waits for slots
  kStarting,    // has slots; trainers start and find each other
  kRunning,     // trains
  kRecovering,  // lost members and forms a new generation
  kStopping,    // is ending; holds its slots until every process is gone
  kSucceeded,   // trained all steps; weights written
  kFailed,      // ended with an error: see the reason
  kCancelled,   // ended on a user's word
};

// "QUEUED", "RUNNING", ...; also the names in JSON output.
absl::string_view JobStateName(JobState state);
// The state of a name, in any case; empty for an unknown name.
std::optional<JobState> ParseJobState(absl::string_view name);
// Whether a job in this state never changes again.
bool IsFinal(JobState state);

struct Placement {
  std::string node;
  int first_rank = 0;
  int num_ranks = 0;
};

// The model after a step, on held-out samples.
struct Evaluation {
  int64_t step = 0;  // the one before it, from 0
  double loss = 0;   // mean per token that has one
  int64_t trained_tokens = 0;
  double seconds = 0;  // slowest rank; no part of a step's time
};

// One committed step, over all ranks.
struct StepSummary {
  int64_t step = 0;              // from 0
  double loss = 0;               // mean per trained token
  double step_seconds = 0;       // slowest rank
  double predicted_seconds = 0;  // of step_seconds, by the plan
  int64_t trained_tokens = 0;
  double idle_share = 0;           // measured imbalance
  double predicted_imbalance = 0;  // of idle_share, by the plan
  double padding_ratio = 0;        // padding tokens / padded tokens
  double gate_seconds = 0;         // least over ranks
  double gradient_norm = 0;        // before clipping; may be infinite
  int plan_lead = 0;   // further plans at the step's begin, least over ranks
  std::string policy;  // that made the plan
  double lower_bound_seconds = 0;  // that no plan of these samples can beat
  int num_micro_batches = 0;
  int highest_degree = 0;
  double slowest_cpu_seconds = 0;  // CPU time of the rank that used most
  double mean_cpu_seconds = 0;
  // Bytes of activations, the most over ranks and micro-batches. Not predicted
  // where the planner does not know what a token takes, as of a custom model.
  std::optional<int64_t> predicted_activation_bytes;
  std::optional<int64_t> peak_activation_bytes;
  // Live tensors, states included, the most over ranks.
  std::optional<int64_t> peak_tensor_bytes;
  double recompute_ratio = 0;  // share of layers, over all tokens
  int groups_live = 0;         // of two ranks and more, the most over ranks
  int64_t groups_opened = 0;   // for this step, over all ranks
  double group_opening_seconds = 0;      // slowest rank
  std::optional<Evaluation> evaluation;  // absent: none followed the step
};

// Sums over the committed steps of the present or last attempt.
struct Totals {
  double step_seconds = 0;
  double idle_share = 0;
  double coordination_share = 0;
  int64_t trained_tokens = 0;
  double padding_ratio = 0;
  int64_t steps_with_plan_lead = 0;
  int64_t steps_after_fourth = 0;
  int64_t plans_refused = 0;
  double prediction_error = 0;  // sum of |predicted - measured| / step_seconds
  double cost_drift = 0;        // of computing, against the first costs
  std::optional<Evaluation> last_evaluation;  // absent: none yet
  std::optional<Evaluation> best_evaluation;  // of the least loss
};

// What the length index of the job's data says.
struct DataSummary {
  int64_t num_samples = 0;
  int64_t num_too_long = 0;   // left out: longer than max_length
  int64_t num_bad = 0;        // left out: bad (docs/data.md)
  int64_t num_truncated = 0;  // cut to max_length
  int64_t longest_tokens = 0;
  int64_t total_tokens = 0;
  // Held out for evaluation; none of them is counted above.
  int64_t evaluation_samples = 0;
  int64_t evaluation_tokens = 0;
  // Of evaluation.source; 0 where a share of the data is held out.
  int64_t evaluation_too_long = 0;
  int64_t evaluation_bad = 0;
  int64_t evaluation_truncated = 0;
  int64_t evaluation_untrained = 0;  // passed over: no token has a loss
  // While data is indexed, before all of the above is known.
  int64_t indexed_bytes = 0;
  int64_t bytes_to_index = 0;  // 0: it is indexed
  // Largest id of a source that has its own token ids; -1: it has none.
  int64_t largest_token = -1;
  // Entries below a folder of text that are no data; a folder counts once.
  int64_t num_hidden_files = 0;
  int64_t num_own_files = 0;   // results of earlier runs
  int64_t num_tool_files = 0;  // of tools or models
  int64_t num_links = 0;       // not followed
  int64_t num_json_files = 0;  // of JSON without records
  // What the job does that its user may not have meant, with the numbers.
  std::vector<std::string> warnings = {};
};

// Costs that plans are made with; the names are those of a cost file.
struct Costs {
  int64_t micro_batch_fixed_ns = 0;
  double linear_ns_per_token = 0;
  double quadratic_ns_per_token2 = 0;
  int64_t collective_latency_ns = 0;
  struct Collective {
    int degree = 0;
    double ns_per_token = 0;
  };
  std::vector<Collective> collective;  // all-to-alls
  int64_t step_fixed_ns = 0;
  double head_ns_per_token = 0;
  std::vector<Collective> gather;  // of keys and values
  // Of a video model, in the place of linear and quadratic above.
  struct Layers {
    double linear_ns_per_token = 0;
    double quadratic_ns_per_token2 = 0;
    double attention_ns_per_token = 0;
    double sharded_attention_ns_per_token = 0;

    friend bool operator==(const Layers&, const Layers&) = default;
  };
  Layers spatial;
  Layers temporal;
  // The part of linear above that is attention's, on one rank, and what takes
  // its place on more ranks.
  double attention_ns_per_token = 0;
  double sharded_attention_ns_per_token = 0;
  // For groups that span nodes; none, or 0: as within a node.
  std::vector<Collective> collective_across = {};
  std::vector<Collective> gather_across = {};
  int64_t collective_latency_across_ns = 0;
};

struct Job {
  std::string id;
  std::string name;
  std::string policy;
  std::string data_source;
  int ranks = 0;
  int64_t num_steps = 0;
  std::string job_yaml;  // the job file as text, with its defaults filled in

  JobState state = JobState::kUnknown;
  std::string reason;   // machine-readable, for example NO_CAPACITY
  std::string message;  // the same for people, with the numbers
  absl::Time submitted;
  std::optional<absl::Time> started;
  std::optional<absl::Time> ended;
  int attempt = 0;
  int64_t generation = 0;
  int queue_position = 0;  // from 1; 0 when not queued
  std::vector<Placement> placements;
  int64_t steps_done = 0;
  std::vector<StepSummary> recent_steps;  // oldest first
  Totals totals;
  std::optional<DataSummary> data;  // absent before the first attempt
  std::optional<Costs> costs;       // absent before they are measured
  std::string weights_path;         // on weights_node; empty before
  std::string weights_node;
  // That the weights were trained for; less than num_steps if the job ended
  // early.
  int64_t weights_steps = 0;
  // Why a job that ended left no weights, or left them outside its folder.
  std::string weights_note;
  // Not empty: the trainers slowed their collectives down to emulate this link;
  // times, costs and plans are not the machine's own.
  std::string emulated_link;
};

// One thing that happened to a job.
struct JobEvent {
  int64_t sequence = 0;  // counts up from 1 within a job
  absl::Time time;
  JobState state = JobState::kUnknown;  // after the event
  std::string reason;
  std::string message;
  int attempt = 0;
};

// One line that a trainer or an agent wrote.
struct LogLine {
  int64_t sequence = 0;  // counts up from 1 within a job
  absl::Time time;
  int rank = 0;  // -1: the agent
  std::string text;
  int attempt = 0;
};

}  // namespace evenstep::client

#endif  // EVENSTEP_JOB_H_
