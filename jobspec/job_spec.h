#ifndef EVENSTEP_JOBSPEC_JOB_SPEC_H_
#define EVENSTEP_JOBSPEC_JOB_SPEC_H_

// What a job is, as plain structs with their defaults: the meaning of a job
// file. Parsed by ParseJobFile, checked by ValidateJobSpec, carried by
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
  // Of a model that the trainer was built with beside its own; empty: the
  // trainer's own of the kind. The planner sees the kind and the sizes alone.
  std::string name;
  int layers = 2;  // of video, spatial and temporal ones in turn
  int width = 128;
  int heads = 4;
  int kv_heads = 0;  // 0 in a file means as many as heads; filled in on parsing
  int vocab = 257;   // bytes and an end token
  Attention attention = Attention::kCausal;
  // How a group may share its sequences; empty: ulysses alone, or switch alone
  // for video.
  std::vector<planner::SpMode> sp_modes;
  // Degrees that fit the query heads but not the key and value heads: these are
  // repeated for every query head.
  bool expand_kv_heads = false;
  // Of video.
  int channels = 0;           // of a latent
  int patch = 1;              // a token's side in latent pixels
  int max_switch_degree = 0;  // wider degrees do not switch; 0: no limit
  // To begin with: a safetensors file, or a folder with a model.safetensors;
  // empty: initial values from the seed.
  std::string weights = {};
  // Of text.
  int mlp_width = 0;  // 0: 8/3 of the width, rounded up to a multiple of 32
  double rope_theta = kRopeTheta;
  double norm_epsilon = kNormEpsilon;

  bool is_video() const { return kind == ModelKind::kVideo; }
};

struct DataSpec {
  std::string source;     // one of data/source_kind.h, such as "text:PATH"
  std::string tokenizer;  // path of a SentencePiece model; empty: bytes
  int64_t max_length = 2048;
  OnTooLong on_too_long = OnTooLong::kFail;
  OnBadSample on_bad_sample = OnBadSample::kFail;
  // Of video: share of clips of which some first frames are given to the model.
  double given_frames = 0;
};

// Samples that are never trained on: a share of the data, or a source of their
// own. Off unless one of the two is named.
struct EvaluationSpec {
  double share = 0;         // of data.source's documents
  std::string source = {};  // with data's tokenizer and rules
  int64_t every = 0;        // steps; 0: only after the last one
  int64_t samples = 0;      // at most; 0: all

  bool enabled() const { return share > 0 || !source.empty(); }
};

struct OptimizerSpec {
  double lr = 3e-4;
  int64_t warmup = 0;  // steps
  double weight_decay = 0.1;
  double clip = 1.0;  // bound on the global norm; 0 = none
  OptimizerSharding sharding = OptimizerSharding::kNone;
};

struct MemorySpec {
  // In one micro-batch, padding included; where the plan chooses what is
  // recomputed: with nothing recomputed.
  int64_t tokens_per_rank = 8192;
  Recompute recompute = Recompute::kFixed;
  int recompute_layers = 0;           // of kFixed; under kPlan one more choice
  int recompute_temporal_layers = 0;  // of video; the above is of spatial ones
};

struct TimeoutSpec {
  // Absent: the larger of 60 s and ten predicted steps.
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
  // Groups of two ranks and more that a rank has open at a time, those of
  // aligned blocks included. Enough for 64 ranks and ten more groups.
  int groups_per_rank = 16;
  int look_ahead = 4;
  MemorySpec memory;
  std::optional<planner::TimeModel> costs;  // absent: measured at the start
  ProfileKey profile;  // of `costs`; ranks of another device refuse to start
  // Costs follow what the steps measure.
  bool refit = true;
  TimeoutSpec timeouts;
};

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

// The same for costs.
absl::Status ValidateCosts(const planner::TimeModel& costs);

// The job as YAML that ParseJobFile reads back to an equal job.
std::string FormatJobFile(const JobSpec& spec);

// A cost file: the keys of planner::TimeModel as YAML, with a comment.
absl::StatusOr<planner::TimeModel> ParseCostFile(absl::string_view yaml,
                                                 absl::string_view name);
std::string FormatCostFile(const planner::TimeModel& costs);

// Names as in job files, and back. INVALID_ARGUMENT naming the known ones.
absl::string_view OnTooLongName(OnTooLong value);
absl::string_view OnBadSampleName(OnBadSample value);
absl::Status ParseOnTooLong(absl::string_view name, OnTooLong* value);
absl::Status ParseOnBadSample(absl::string_view name, OnBadSample* value);
absl::string_view ModelKindName(ModelKind value);
absl::Status ParseModelKind(absl::string_view name, ModelKind* value);
absl::string_view AttentionName(Attention value);
absl::Status ParseAttention(absl::string_view name, Attention* value);
// "ulysses, kv_gather, both, switch", in any number; empty for none.
std::string SpModesText(const std::vector<planner::SpMode>& modes);
absl::Status ParseSpModes(absl::string_view text,
                          std::vector<planner::SpMode>* modes);
absl::string_view PrecisionName(Precision value);
absl::Status ParsePrecision(absl::string_view name, Precision* value);
absl::string_view RecomputeName(Recompute value);
absl::Status ParseRecompute(absl::string_view name, Recompute* value);
absl::string_view BlockShapeName(planner::BlockShape value);
absl::Status ParseBlockShape(absl::string_view name,
                             planner::BlockShape* value);
absl::string_view OptimizerShardingName(OptimizerSharding value);
absl::Status ParseOptimizerSharding(absl::string_view name,
                                    OptimizerSharding* value);

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
