#ifndef EVENSTEP_JOBSPEC_JOB_SPEC_H_
#define EVENSTEP_JOBSPEC_JOB_SPEC_H_

// A job as typed structs with their defaults. proto/evenstep/v1/job_spec.proto
// declares the keys and says what they mean; VisitKeys maps each to its member.
// Parsed by ParseJobFile, checked by ValidateJobSpec, carried by
// wire/job_spec_proto.h. Plain data; no thread-safety needed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "data/dataset.h"
#include "planner/request.h"

namespace evenstep::jobspec {

using data::OnBadSample;
using data::OnTooLong;

enum class ModelKind { kText, kVideo };
// What a token sees of its own document.
enum class Attention { kCausal, kFull };
// Of parameters. Under bfloat16 masters, gradients and optimizer states are
// float32.
enum class Precision { kFloat32, kBFloat16, kFloat64 };
// zero1: optimizer states are split over the ranks.
enum class OptimizerSharding { kNone, kZero1 };

// fixed: memory.recompute_layers of every micro-batch. plan: the plan chooses
// for each, in quarters of the layers, of video in halves of either kind.
enum class Recompute { kFixed, kPlan };

inline constexpr double kRopeTheta = 10000.0;
inline constexpr double kNormEpsilon = 1e-5;

struct ModelSpec {
  ModelKind kind = ModelKind::kText;
  std::string name;  // the planner uses only the kind and the sizes
  int layers = 2;
  int width = 128;
  int heads = 4;
  int kv_heads = 0;  // 0 in a file means as many as heads; filled in on parsing
  int vocab = 257;
  Attention attention = Attention::kCausal;
  std::vector<planner::SpMode> sp_modes;
  bool expand_kv_heads = false;
  int channels = 0;
  int patch = 1;
  int max_switch_degree = 0;
  std::string weights = {};
  int mlp_width = 0;
  double rope_theta = kRopeTheta;
  double norm_epsilon = kNormEpsilon;

  bool is_video() const { return kind == ModelKind::kVideo; }
};

struct DataSpec {
  std::string source;
  std::string tokenizer;
  int64_t max_length = 2048;
  OnTooLong on_too_long = OnTooLong::kFail;
  OnBadSample on_bad_sample = OnBadSample::kFail;
  double given_frames = 0;
};

// Off unless a share or a source is named.
struct EvaluationSpec {
  double share = 0;
  std::string source = {};  // with data's tokenizer and rules
  int64_t every = 0;
  int64_t samples = 0;

  bool enabled() const { return share > 0 || !source.empty(); }
};

struct OptimizerSpec {
  double lr = 3e-4;
  int64_t warmup = 0;
  double weight_decay = 0.1;
  double clip = 1.0;
  OptimizerSharding sharding = OptimizerSharding::kNone;
};

struct MemorySpec {
  int64_t tokens_per_rank = 8192;
  Recompute recompute = Recompute::kFixed;
  int recompute_layers = 0;  // of kFixed; under kPlan one more choice
  int recompute_temporal_layers = 0;
};

struct TimeoutSpec {
  std::optional<absl::Duration> collective;
  absl::Duration start = absl::Minutes(5);
  absl::Duration stop = absl::Seconds(5);
};

// What a profile's costs are true of; all empty: of no profile.
struct ProfileKey {
  std::string model;
  std::string device;
  std::string software;
  std::string precision;

  bool empty() const { return *this == ProfileKey(); }
  friend bool operator==(const ProfileKey&, const ProfileKey&) = default;
};

struct JobSpec {
  std::string name;
  std::string kind = "train";
  ModelSpec model;
  DataSpec data;
  EvaluationSpec evaluation;
  int64_t batch_samples = 16;
  int64_t steps = 100;
  uint64_t seed = 0;
  OptimizerSpec optimizer;
  Precision precision = Precision::kFloat32;
  planner::Policy policy = planner::Policy::kEven;
  int ranks = 1;
  planner::BlockShape blocks = planner::BlockShape::kAligned;
  int groups_per_rank = 16;  // enough for 64 ranks and ten more groups
  int look_ahead = 4;
  MemorySpec memory;
  std::optional<planner::TimeModel> costs;  // absent: measured at the start
  ProfileKey profile;  // of `costs`; ranks of another device refuse to start
  bool refit = true;
  TimeoutSpec timeouts;
};

// Calls visit(key, member) for each key of a job file but `costs`. The order is
// not that of files: JobKeys() of job_keys.h has it. Spec: JobSpec, or const.
template <typename Spec, typename Visit>
void VisitKeys(Spec& spec, const Visit& visit) {
  visit("name", spec.name);
  visit("kind", spec.kind);
  visit("model.kind", spec.model.kind);
  visit("model.name", spec.model.name);
  visit("model.layers", spec.model.layers);
  visit("model.width", spec.model.width);
  visit("model.heads", spec.model.heads);
  visit("model.kv_heads", spec.model.kv_heads);
  visit("model.vocab", spec.model.vocab);
  visit("model.attention", spec.model.attention);
  visit("model.sp_modes", spec.model.sp_modes);
  visit("model.expand_kv_heads", spec.model.expand_kv_heads);
  visit("model.channels", spec.model.channels);
  visit("model.patch", spec.model.patch);
  visit("model.max_switch_degree", spec.model.max_switch_degree);
  visit("model.weights", spec.model.weights);
  visit("model.mlp_width", spec.model.mlp_width);
  visit("model.rope_theta", spec.model.rope_theta);
  visit("model.norm_epsilon", spec.model.norm_epsilon);
  visit("data.source", spec.data.source);
  visit("data.tokenizer", spec.data.tokenizer);
  visit("data.max_length", spec.data.max_length);
  visit("data.on_too_long", spec.data.on_too_long);
  visit("data.on_bad_sample", spec.data.on_bad_sample);
  visit("data.given_frames", spec.data.given_frames);
  visit("evaluation.share", spec.evaluation.share);
  visit("evaluation.source", spec.evaluation.source);
  visit("evaluation.every", spec.evaluation.every);
  visit("evaluation.samples", spec.evaluation.samples);
  visit("batch.samples", spec.batch_samples);
  visit("steps", spec.steps);
  visit("seed", spec.seed);
  visit("optimizer.lr", spec.optimizer.lr);
  visit("optimizer.warmup", spec.optimizer.warmup);
  visit("optimizer.weight_decay", spec.optimizer.weight_decay);
  visit("optimizer.clip", spec.optimizer.clip);
  visit("optimizer.sharding", spec.optimizer.sharding);
  visit("precision", spec.precision);
  visit("policy", spec.policy);
  visit("ranks", spec.ranks);
  visit("blocks", spec.blocks);
  visit("groups_per_rank", spec.groups_per_rank);
  visit("look_ahead", spec.look_ahead);
  visit("memory.tokens_per_rank", spec.memory.tokens_per_rank);
  visit("memory.recompute", spec.memory.recompute);
  visit("memory.recompute_layers", spec.memory.recompute_layers);
  visit("memory.recompute_temporal_layers",
        spec.memory.recompute_temporal_layers);
  visit("timeouts.collective", spec.timeouts.collective);
  visit("timeouts.start", spec.timeouts.start);
  visit("timeouts.stop", spec.timeouts.stop);
  visit("refit", spec.refit);
  visit("profile.model", spec.profile.model);
  visit("profile.device", spec.profile.device);
  visit("profile.software", spec.profile.software);
  visit("profile.precision", spec.profile.precision);
}

// Parses a YAML job file. Unknown keys, wrong types and rule breaks are
// INVALID_ARGUMENT with "NAME:LINE: key: sentence" ("--set key: sentence" where
// an override is to blame). `costs` may be a map, the path of a cost file or of
// a profile (relative to `base_dir`), or `profile`: the one in `profile_folder`
// that is of the job's model. Relative paths of data, tokenizer and weights are
// made absolute against `base_dir`. `overrides` are "a.b=value"
// pairs, applied over the file before the rules are checked. kLeaveOut:
// whatever `costs` says, the job has none (a profile is to be made).
enum class CostsWanted { kRead, kLeaveOut };
struct ParseOptions {
  std::string name = "job.yaml";  // for messages
  std::string base_dir = ".";
  std::string profile_folder;  // empty: DefaultProfileFolder() of profile.h
  std::vector<std::string> overrides;
  // What messages call overrides[i], such as the flag that it is from; none or
  // empty: "--set KEY".
  std::vector<std::string> override_names = {};
  CostsWanted costs = CostsWanted::kRead;
};
absl::StatusOr<JobSpec> ParseJobFile(absl::string_view yaml,
                                     const ParseOptions& options);

// Rules that need no data and no cluster: ranges, divisibility, known names.
// INVALID_ARGUMENT with the key and the numbers.
absl::Status ValidateJobSpec(const JobSpec& spec);

// The job as YAML that ParseJobFile reads back to an equal job.
std::string FormatJobFile(const JobSpec& spec);

// What OpenDataset needs of a job.
data::DatasetOptions ToDatasetOptions(const JobSpec& spec);
// The same for evaluation.source.
data::DatasetOptions ToEvaluationOptions(const JobSpec& spec);

// The planner's view of a job's model.
planner::ModelShape ToModelShape(const ModelSpec& model);
// Layers of each kind that are recomputed where that is fixed.
planner::LayerCounts ToRecomputeLayers(const MemorySpec& memory);
// Groups that the aligned blocks of so many ranks take on rank 0, the rank that
// is in most: they are open throughout.
int NumAlignedGroups(int ranks);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_JOB_SPEC_H_
