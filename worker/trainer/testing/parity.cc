#include "worker/trainer/testing/parity.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/counter_random.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/optim/adamw.h"
#include "worker/trainer/testing/clip_oracle.h"

namespace evenstep::trainer::testing {
namespace {

// A step's plan with its samples, in order of ids.
struct TestStep {
  wire::StepPlan plan;
  std::map<int64_t, data::SampleTokens> samples;
};

AdamWOptions Optimizer(size_t steps) {
  AdamWOptions options;
  options.schedule = {.peak = 1e-2,
                      .warmup_steps = 2,
                      .total_steps = static_cast<int64_t>(steps)};
  return options;
}

// Of the job: what is random about samples of video.
constexpr uint64_t kSeed = 5;

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ParityOptions& options) {
  if (options.own.make) return options.own.make();
  if (!options.video) return MakeDecoder(options.config);
  EVENSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            MakeDiffusionTransformer(*options.video));
  return model;
}

int64_t CountTrained(const data::SampleTokens& sample) {
  if (sample.clip != nullptr) {
    return (sample.clip->shape.frames - sample.given_frames) *
           sample.clip->shape.patches();
  }
  return std::count_if(
      sample.targets.begin(), sample.targets.end(),
      [](int32_t target) { return target != data::kIgnoredTarget; });
}

// The samples of a micro-batch, whose ids begin with `id`.
std::vector<data::SampleTokens> MakeSamples(const ParityOptions& options,
                                            const TestMicroBatch& test,
                                            int64_t id) {
  std::vector<data::SampleTokens> samples;
  for (const data::ClipShape& shape : test.shapes) {
    samples.push_back(RandomClip(id++, shape, options.video->channels));
    if (!test.given_frames) continue;
    samples.back().given_frames = std::min(*test.given_frames, shape.frames);
  }
  for (const int64_t length : test.lengths) {
    samples.push_back(options.sample
                          ? options.sample(id, length)
                          : RandomSample(id, length, options.config.vocab));
    ++id;
  }
  return samples;
}

std::vector<TestStep> MakeSteps(const ParityOptions& options) {
  std::vector<TestStep> steps;
  int64_t id = 0;
  for (const auto& micro_batches : options.steps) {
    TestStep& step = steps.emplace_back();
    step.plan.step = static_cast<int64_t>(steps.size()) - 1;
    step.plan.world = options.world;
    for (const TestMicroBatch& test : micro_batches) {
      wire::PlannedMicroBatch planned;
      planned.first_rank = test.first_rank;
      planned.degree = test.degree;
      planned.shapes = test.shapes;
      planned.recompute_layers = test.recompute_layers;
      planned.recompute_temporal_layers = test.recompute_temporal_layers;
      planned.sp_mode = test.sp_mode;
      planned.ulysses_degree = test.ulysses_degree;
      for (data::SampleTokens& sample : MakeSamples(options, test, id)) {
        planned.lengths.push_back(data::NumTokens(sample));
        step.plan.trained_tokens += CountTrained(sample);
        planned.sample_ids.push_back(id);
        step.samples[id++] = std::move(sample);
      }
      step.plan.micro_batches.push_back(std::move(planned));
    }
  }
  return steps;
}

// A gradient that is truly zero, such as that of the queries over documents of
// one token, comes out as rounding of the others: norms below this share of
// the norm of all count as this share.
constexpr double kLeastShare = 1e-6;

double Norm(const at::Tensor& x) {
  return at::linalg_vector_norm(x).item().toDouble();
}

double NormOfAll(const std::vector<at::Tensor>& tensors) {
  double square = 0;
  for (const at::Tensor& x : tensors) square += Norm(x) * Norm(x);
  return std::sqrt(square);
}

void Raise(double value, double* to) {
  *to = std::isnan(value) ? INFINITY : std::max(*to, value);
}

// Largest difference over the elements of `range`, by parameter.
double Difference(const std::vector<NamedParameter>& parameters,
                  const std::vector<at::Tensor>& actual,
                  const std::vector<at::Tensor>& expected,
                  const ElementRange& range) {
  const double least = kLeastShare * NormOfAll(expected);
  double largest = 0;
  for (const ParameterSlice& slice : SlicesOf(parameters, range)) {
    const auto part = [&slice](const std::vector<at::Tensor>& tensors) {
      return tensors[slice.parameter].flatten().narrow(0, slice.offset,
                                                       slice.count);
    };
    const double norm = std::max(Norm(expected[slice.parameter]), least);
    Raise(Norm(at::sub(part(actual).cpu(), part(expected))) / norm, &largest);
  }
  return largest;
}

// What the oracle says after each step.
struct Expected {
  std::vector<double> losses;
  std::vector<std::vector<at::Tensor>> gradients;  // by step, parameter
  std::vector<at::Tensor> parameters;
};

OracleResult RunOracleOf(const ParityOptions& options,
                         const std::vector<NamedParameter>& parameters,
                         const TestStep& step) {
  std::vector<data::SampleTokens> samples;
  std::vector<int64_t> ids;
  for (const auto& [id, sample] : step.samples) {
    samples.push_back(sample);
    ids.push_back(id);
  }
  if (options.own.make) {
    return RunOracle(options.own.loss, parameters, samples);
  }
  return options.video
             ? RunClipOracle(*options.video, parameters, samples, ids, kSeed)
             : RunOracle(options.config, parameters, samples);
}

absl::StatusOr<Expected> RunOracleSteps(const ParityOptions& options,
                                        const std::vector<TestStep>& steps) {
  ParityOptions on_cpu = options;
  on_cpu.config.device = at::kCPU;
  if (on_cpu.video) on_cpu.video->device = at::kCPU;
  EVENSTEP_ASSIGN_OR_RETURN(auto model, MakeModel(on_cpu));
  const std::vector<NamedParameter> parameters =
      CopyParameters(model->parameters());
  AdamW optimizer(parameters, Optimizer(steps.size()));
  Expected expected;
  for (const TestStep& step : steps) {
    expected.losses.push_back(RunOracleOf(on_cpu, parameters, step).loss);
    auto& gradients = expected.gradients.emplace_back();
    for (const auto& p : parameters)
      gradients.push_back(p.value.grad().clone());
    EVENSTEP_RETURN_IF_ERROR(optimizer.Update(step.plan.step).status());
  }
  for (const auto& p : parameters) {
    expected.parameters.push_back(p.value.detach());
  }
  return expected;
}

class WrappingFactory : public CommunicatorFactory {
 public:
  WrappingFactory(std::unique_ptr<CommunicatorFactory> inner, GroupWrapper wrap)
      : inner_(std::move(inner)), wrap_(std::move(wrap)) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(const std::string& key,
                                                       const RankBlock& block,
                                                       int rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(auto made, inner_->Create(key, block, rank));
    return wrap_(std::move(made));
  }

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
  const GroupWrapper wrap_;
};

std::vector<RankBlock> BlocksOf(const wire::StepPlan& plan) {
  std::vector<RankBlock> blocks;
  for (const wire::PlannedMicroBatch& planned : plan.micro_batches) {
    blocks.push_back({planned.first_rank, planned.degree});
  }
  return blocks;
}

// The least that every step can run with, so that groups of one step are closed
// for the next.
int SmallestBudget(const std::vector<TestStep>& steps, int world) {
  size_t budget = 1;
  for (int rank = 0; rank < world; ++rank) {
    const std::vector<RankBlock> tree = TreeBlocks(rank, world);
    for (const TestStep& step : steps) {
      std::set<RankBlock> needed(tree.begin(), tree.end());
      for (const RankBlock& block : BlocksOf(step.plan)) {
        if (block.degree > 1 && block.Contains(rank)) needed.insert(block);
      }
      budget = std::max(budget, needed.size());
    }
  }
  return static_cast<int>(budget);
}

// The groups of one rank's generation.
struct RankGroups {
  std::unique_ptr<GroupTree> tree;
  // Where the world is one rank the tree's own group knows no device's memory,
  // in which optimizer states may be split all the same here.
  std::unique_ptr<Communicator> alone;

  StepGroups groups() const {
    StepGroups found = GroupsOf(tree.get());
    if (alone != nullptr) found.world = alone.get();
    return found;
  }
};

absl::StatusOr<RankGroups> BuildGroups(const std::vector<TestStep>& steps,
                                       CommunicatorFactory& factory, int rank,
                                       int world) {
  RankGroups built;
  EVENSTEP_ASSIGN_OR_RETURN(
      built.tree, GroupTree::Build(factory, /*generation=*/1, rank, world,
                                   SmallestBudget(steps, world)));
  if (world > 1) return built;
  EVENSTEP_ASSIGN_OR_RETURN(built.alone, factory.Create("alone", {0, 1}, 0));
  return built;
}

// The steps as the ranks are given them.
std::vector<TestStep> Repack(const ParityOptions& options,
                             std::vector<TestStep> steps) {
  if (!options.repack) return steps;
  for (TestStep& step : steps) {
    for (wire::PlannedMicroBatch& planned : step.plan.micro_batches) {
      std::vector<data::SampleTokens> samples;
      for (const int64_t id : planned.sample_ids) {
        samples.push_back(step.samples.at(id));
      }
      samples = options.repack(samples);
      planned.sample_ids.resize(samples.size());
      planned.lengths.clear();
      for (size_t i = 0; i < samples.size(); ++i) {
        planned.lengths.push_back(data::NumTokens(samples[i]));
        step.samples[planned.sample_ids[i]] = std::move(samples[i]);
      }
    }
  }
  return steps;
}

std::vector<at::Tensor> ValuesOf(const std::vector<NamedParameter>& all) {
  std::vector<at::Tensor> values;
  for (const NamedParameter& p : all) values.push_back(p.value.detach());
  return values;
}

std::vector<at::Tensor> GradientsOf(const std::vector<NamedParameter>& all) {
  std::vector<at::Tensor> gradients;
  for (const NamedParameter& p : all) gradients.push_back(p.value.grad());
  return gradients;
}

// One rank of the run, compared step by step.
absl::Status RunRank(const ParityOptions& options,
                     const std::vector<TestStep>& steps,
                     const Expected& expected, const RankGroups& rank_groups,
                     ParityReport* report) {
  const StepGroups groups = rank_groups.groups();
  EVENSTEP_ASSIGN_OR_RETURN(auto model, MakeModel(options));
  if (options.wrap) model = options.wrap(std::move(model));
  const bool sharded = options.sharding == Sharding::kZero1;
  const auto& parameters = model->parameters();
  const ElementRange all{0, CountElements(parameters)};
  const ElementRange own =
      sharded ? ShardOf(all.end, options.world, groups.rank) : all;
  StepRunner runner(model.get(), groups,
                    {options.irregular_heads, options.sharding, kSeed});
  AdamW optimizer(parameters, Optimizer(steps.size()),
                  sharded ? groups.world : nullptr);
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto read = [&](int64_t id) -> absl::StatusOr<data::SampleTokens> {
      return steps[s].samples.at(id);
    };
    EVENSTEP_ASSIGN_OR_RETURN(
        const int opened, rank_groups.tree->Prepare(BlocksOf(steps[s].plan)));
    report->opened += opened;
    EVENSTEP_ASSIGN_OR_RETURN(StepResult result,
                              runner.Run(steps[s].plan, read));
    Raise(std::abs(result.loss - expected.losses[s]), &report->loss);
    Raise(Difference(parameters, GradientsOf(parameters), expected.gradients[s],
                     own),
          &report->gradient);
    report->results = {std::move(result)};
    EVENSTEP_RETURN_IF_ERROR(
        optimizer.Update(static_cast<int64_t>(s)).status());
  }
  Raise(Difference(parameters, ValuesOf(parameters), expected.parameters, all),
        &report->parameter);
  return absl::OkStatus();
}

}  // namespace

data::SampleTokens RandomSample(int64_t id, int64_t length, int vocab) {
  data::SampleTokens sample;
  uint64_t state = static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15ULL + 1;
  for (int64_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    sample.tokens.push_back(static_cast<int32_t>((state >> 33) % vocab));
  }
  sample.targets.assign(sample.tokens.begin() + 1, sample.tokens.end());
  sample.targets.push_back(data::kIgnoredTarget);
  return sample;
}

data::SampleTokens RandomClip(int64_t id, const data::ClipShape& shape,
                              int64_t channels) {
  auto clip = std::make_shared<data::Clip>();
  clip->shape = shape;
  clip->channels = channels;
  const CounterRandom random(static_cast<uint64_t>(id));
  for (int64_t i = 0; i < shape.tokens() * channels; ++i) {
    clip->values.push_back(
        static_cast<float>(random.Normal(static_cast<uint64_t>(i))));
  }
  data::SampleTokens sample;
  sample.given_frames = id % 3 == 1 ? shape.frames / 2 : 0;
  sample.clip = std::move(clip);
  return sample;
}

DecoderConfig SmallConfig() {
  DecoderConfig config;
  config.layers = 2;
  config.width = 16;
  config.heads = 4;
  config.kv_heads = 2;
  config.vocab = 13;
  config.seed = 7;
  config.dtype = at::kDouble;
  return config;
}

DiffusionTransformerConfig SmallVideoConfig() {
  DiffusionTransformerConfig config;
  config.layers = 4;
  config.width = 16;
  config.heads = 4;
  config.channels = 3;
  config.seed = 7;
  config.dtype = at::kDouble;
  return config;
}

absl::StatusOr<ParityReport> RunParity(const ParityOptions& options) {
  at::set_num_threads(1);
  std::vector<TestStep> steps = MakeSteps(options);
  EVENSTEP_ASSIGN_OR_RETURN(const Expected expected,
                            RunOracleSteps(options, steps));
  steps = Repack(options, std::move(steps));
  std::vector<ParityReport> reports(options.world);
  Fabric fabric(options.back_end);
  const std::vector<absl::Status> statuses =
      RunRanks(options.world, [&](int rank) -> absl::Status {
        at::set_num_threads(1);
        if (options.start_rank) EVENSTEP_RETURN_IF_ERROR(options.start_rank());
        EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
        if (options.wrap_factory) {
          factory = options.wrap_factory(std::move(factory));
        }
        if (options.wrap_group) {
          factory = std::make_unique<WrappingFactory>(std::move(factory),
                                                      options.wrap_group);
        }
        EVENSTEP_ASSIGN_OR_RETURN(
            const RankGroups groups,
            BuildGroups(steps, *factory, rank, options.world));
        absl::Status status =
            RunRank(options, steps, expected, groups, &reports[rank]);
        if (!status.ok()) groups.tree->Abort(status.message());
        return status;
      });
  ParityReport report;
  for (int rank = 0; rank < options.world; ++rank) {
    if (!statuses[rank].ok()) {
      return absl::Status(
          statuses[rank].code(),
          absl::StrCat("rank ", rank, ": ", statuses[rank].message()));
    }
    Raise(reports[rank].loss, &report.loss);
    Raise(reports[rank].gradient, &report.gradient);
    Raise(reports[rank].parameter, &report.parameter);
    report.results.push_back(std::move(reports[rank].results.front()));
  }
  report.opened = reports.front().opened;
  report.last_plan = steps.back().plan;
  return report;
}

}  // namespace evenstep::trainer::testing
