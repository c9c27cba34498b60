#include "worker/trainer/parallel/step_runner.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/flight_recorder.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/parallel/shard.h"
#include "worker/trainer/parallel/ulysses.h"
#include "worker/trainer/testing/parity.h"

namespace evenstep::trainer {
namespace {

using testing::BackEnd;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fabric;
using ::testing::HasSubstr;
using testing::RandomSample;
using testing::RunRanks;
using testing::SmallConfig;

// The n-th token of a document has loss n w, and w is 1. So tokens of long
// documents weigh on the mean as they should only if each token counts the
// same, however they are dealt out; and the gradient of w is the loss again.
class LossOfPosition : public Model {
 public:
  LossOfPosition()
      : parameters_({{"w", at::ones({1}, at::kDouble).requires_grad_(true)}}) {}
  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }
  std::vector<LayerKind> layers() const override { return {}; }
  at::Tensor Forward(const PackedShard& shard, SequenceAttention&,
                     const ForwardOptions&) override {
    return Loss(parameters_[0].value.sum(), shard);
  }
  double gradient() const {
    return parameters_[0].value.grad().item().toDouble();
  }

 protected:
  virtual at::Tensor Loss(const at::Tensor& w, const PackedShard& shard) {
    const at::Tensor trained = shard.targets_T.ne(data::kIgnoredTarget);
    const at::Tensor sum = shard.positions_T.add(1).mul(trained).sum();
    return at::mul(w, sum.item().toDouble());
  }

 private:
  std::vector<NamedParameter> parameters_;
};

struct Outcome {
  absl::Status status;
  StepResult result;
  double gradient = 0;
  double value = 0;
};

// `trained` of each sample's tokens have a loss; the rest are masked.
data::SampleTokens Masked(int64_t length, int64_t trained) {
  data::SampleTokens sample;
  sample.tokens.assign(length, 1);
  sample.targets.assign(length, data::kIgnoredTarget);
  std::fill_n(sample.targets.begin(), trained, 1);
  return sample;
}

wire::StepPlan Plan(int world, int64_t trained_tokens,
                    std::vector<wire::PlannedMicroBatch> micro_batches) {
  wire::StepPlan plan;
  plan.step = 5;
  plan.world = world;
  plan.trained_tokens = trained_tokens;
  plan.micro_batches = std::move(micro_batches);
  return plan;
}

wire::PlannedMicroBatch MicroBatch(int first_rank, int degree,
                                   std::vector<int64_t> lengths) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.first_rank = first_rank;
  micro_batch.degree = degree;
  micro_batch.lengths = lengths;
  // A sample's id is its length: readers below need no more.
  micro_batch.sample_ids = std::move(lengths);
  return micro_batch;
}

absl::StatusOr<data::SampleTokens> ReadWithEndToken(int64_t id) {
  return Masked(id, id - 1);
}
absl::StatusOr<data::SampleTokens> ReadAllTrained(int64_t id) {
  return Masked(id, id);
}

template <typename ModelType = LossOfPosition>
std::vector<Outcome> RunPlan(const wire::StepPlan& plan,
                             const SampleReader& read, int world) {
  std::vector<Outcome> outcomes(world);
  Fabric fabric(BackEnd::kInProcess);
  RunRanks(world, [&](int rank) -> absl::Status {
    at::set_num_threads(1);
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
    EVENSTEP_ASSIGN_OR_RETURN(auto groups,
                              GroupTree::Build(*factory, 1, rank, world));
    ModelType model;
    StepRunner runner(&model, GroupsOf(groups.get()));
    auto result = runner.Run(plan, read);
    Outcome& outcome = outcomes[rank];
    outcome.status = result.status();
    if (result.ok()) outcome.result = *result;
    outcome.gradient = model.gradient();
    outcome.value = model.parameters()[0].value.item().toDouble();
    return absl::OkStatus();
  });
  return outcomes;
}

// Of a document with so many trained tokens.
double LossSum(int64_t trained) {
  return static_cast<double>(trained * (trained + 1)) / 2;
}

// `trained` of each document.
double MeanLoss(const std::vector<int64_t>& trained) {
  double sum = 0;
  int64_t tokens = 0;
  for (const int64_t count : trained) {
    sum += LossSum(count);
    tokens += count;
  }
  return sum / static_cast<double>(tokens);
}

void ExpectEverywhere(double loss, const wire::StepPlan& plan,
                      const SampleReader& read) {
  for (const Outcome& outcome : RunPlan(plan, read, plan.world)) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_NEAR(outcome.result.loss, loss, 1e-12 * loss);
    EXPECT_NEAR(outcome.gradient, loss, 1e-12 * loss);
    EXPECT_EQ(outcome.result.trained_tokens, plan.trained_tokens);
  }
}

// 10 and 100 trained tokens weigh 10/110 and 100/110; a half each
// would give 28.
TEST(StepRunnerTest, MicroBatchesWeighByTheirTokens) {
  const auto plan =
      Plan(1, 110, {MicroBatch(0, 1, {11}), MicroBatch(0, 1, {101})});
  ExpectEverywhere((10 * 5.5 + 100 * 50.5) / 110, plan, ReadWithEndToken);
  const auto outcomes = RunPlan(plan, ReadWithEndToken, 1);
  ASSERT_EQ(outcomes[0].result.micro_batches.size(), 2);
  EXPECT_EQ(outcomes[0].result.micro_batches[0].loss_sum, LossSum(10));
  EXPECT_EQ(outcomes[0].result.micro_batches[1].loss_sum, LossSum(100));
}

// Degree 8, 100 tokens a rank: not an eighth.
TEST(StepRunnerTest, DegreeEightDoesNotScaleTheLoss) {
  ExpectEverywhere(400.5, Plan(8, 800, {MicroBatch(0, 8, {800})}),
                   ReadAllTrained);
}

// Each token counts once, not once a rank.
TEST(StepRunnerTest, TokensOfASharedMicroBatchCountOnce) {
  const auto outcomes =
      RunPlan(Plan(2, 7, {MicroBatch(0, 2, {7})}), ReadAllTrained, 2);
  EXPECT_EQ(outcomes[0].result.trained_tokens, 7);
  EXPECT_EQ(outcomes[0].result.micro_batches[0].trained_tokens, 4);
  EXPECT_EQ(outcomes[1].result.micro_batches[0].trained_tokens, 3);
}

// The ranks' own means, 238 and 50.5, are no part of it.
TEST(StepRunnerTest, OneGroupOfTwoAndTwoOfOneAreTheSame) {
  const double uneven = MeanLoss({475, 100});
  EXPECT_NEAR(uneven, (475 * 238 + 100 * 50.5) / 575, 1e-9);
  ExpectEverywhere(
      uneven, Plan(2, 575, {MicroBatch(0, 1, {475}), MicroBatch(1, 1, {100})}),
      ReadAllTrained);
  ExpectEverywhere(uneven, Plan(2, 575, {MicroBatch(0, 2, {475, 100})}),
                   ReadAllTrained);
  const double even = MeanLoss({2048, 2048});
  ExpectEverywhere(
      even, Plan(2, 4096, {MicroBatch(0, 1, {2048}), MicroBatch(1, 1, {2048})}),
      ReadAllTrained);
  ExpectEverywhere(even, Plan(2, 4096, {MicroBatch(0, 2, {2048, 2048})}),
                   ReadAllTrained);
}

// Sums over samples do not depend on the degree.
TEST(StepRunnerTest, SumsOfLossesAreTheSameAtEveryDegree) {
  for (int degree : {1, 2, 4}) {
    const auto outcomes = RunPlan(
        Plan(4, 30, {MicroBatch(0, degree, {5, 9, 16})}), ReadAllTrained, 4);
    double sum = 0;
    for (const Outcome& outcome : outcomes) {
      for (const auto& done : outcome.result.micro_batches) {
        sum += done.loss_sum;
      }
    }
    EXPECT_EQ(sum, LossSum(5) + LossSum(9) + LossSum(16));
    EXPECT_NEAR(outcomes[3].result.loss, MeanLoss({5, 9, 16}), 1e-12);
  }
}

TEST(StepRunnerTest, AStepWithoutTrainedTokensIsAnError) {
  const auto outcomes =
      RunPlan(Plan(1, 0, {MicroBatch(0, 1, {1})}), ReadWithEndToken, 1);
  EXPECT_EQ(outcomes[0].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outcomes[0].status.message()),
              HasSubstr("step 5 has no trained tokens"));
}

// Sample 3 is masked altogether; a real decoder, so that a mean over nothing
// would show as a NaN.
TEST(StepRunnerTest, AnAllMaskedSampleContributesNothing) {
  testing::ParityOptions options;
  options.config = SmallConfig();
  options.world = 2;
  options.steps = {{{0, 1, {6}}, {1, 1, {5}}}, {{0, 2, {7, 3}}}};
  options.sample = [](int64_t id, int64_t length) {
    data::SampleTokens sample = RandomSample(id, length, 13);
    if (id == 1 || id == 3) {
      sample.targets.assign(length, data::kIgnoredTarget);
    }
    return sample;
  };
  const auto report = testing::RunParity(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LE(report->loss, 1e-12);
  EXPECT_LE(report->gradient, 1e-10);
  EXPECT_EQ(report->results[0].trained_tokens, 6);
}

TEST(StepRunnerTest, OtherTokenCountsThanThePlansAreAnErrorOnAllRanks) {
  const auto outcomes =
      RunPlan(Plan(2, 12, {MicroBatch(0, 1, {6}), MicroBatch(1, 1, {5})}),
              ReadAllTrained, 2);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("counted 11 trained tokens in step 5, its plan says "
                          "12"));
  }
}

// The loss of any micro-batch of five tokens is not a number.
class NotANumberAtFive : public LossOfPosition {
  at::Tensor Loss(const at::Tensor& w, const PackedShard& shard) override {
    return at::mul(w, shard.real_tokens == 5 ? NAN : 1.0);
  }
};

TEST(StepRunnerTest, ANotFiniteLossIsSeenByAllAndItsMicroBatchIsNamed) {
  const auto outcomes = RunPlan<NotANumberAtFive>(
      Plan(2, 15,
           {MicroBatch(0, 1, {6}), MicroBatch(1, 1, {4}),
            MicroBatch(1, 1, {5})}),
      ReadAllTrained, 2);
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_GT(outcome.result.not_finite, 0);
    EXPECT_EQ(outcome.value, 1.0);
  }
  EXPECT_FALSE(outcomes[0].result.micro_batches[0].loss_not_finite);
  EXPECT_FALSE(outcomes[1].result.micro_batches[0].loss_not_finite);
  EXPECT_TRUE(outcomes[1].result.micro_batches[1].loss_not_finite);
  EXPECT_EQ(outcomes[1].result.micro_batches[1].index, 2);
}

// sqrt(w - 1) is 0 at w = 1, but its slope is infinite.
class InfiniteSlopeAtFive : public LossOfPosition {
  at::Tensor Loss(const at::Tensor& w, const PackedShard& shard) override {
    return shard.real_tokens == 5 ? at::sqrt(at::sub(w, 1.0)) : w;
  }
};

TEST(StepRunnerTest, ANotFiniteGradientOfAFiniteLossIsSeenToo) {
  const auto outcomes = RunPlan<InfiniteSlopeAtFive>(
      Plan(2, 11, {MicroBatch(0, 1, {6}), MicroBatch(1, 1, {5})}),
      ReadAllTrained, 2);
  EXPECT_GT(outcomes[0].result.not_finite, 0);
  EXPECT_FALSE(outcomes[0].result.micro_batches[0].gradient_not_finite);
  EXPECT_TRUE(outcomes[1].result.micro_batches[0].gradient_not_finite);
  EXPECT_FALSE(outcomes[1].result.micro_batches[0].loss_not_finite);
}

TEST(StepRunnerTest, PlansThatDoNotFitAreRefused) {
  EXPECT_EQ(RunPlan(Plan(3, 6, {MicroBatch(0, 1, {6})}), ReadAllTrained, 1)[0]
                .status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunPlan(Plan(1, 6, {MicroBatch(0, 2, {6})}), ReadAllTrained, 1)[0]
                .status.code(),
            absl::StatusCode::kNotFound);
  const auto changed = RunPlan(
      Plan(1, 6, {MicroBatch(0, 1, {6})}), [](int64_t) { return Masked(4, 4); },
      1);
  EXPECT_EQ(changed[0].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(changed[0].status.message()),
              HasSubstr("sample 6 has 4 tokens, its plan says 6"));
}

// Padding is reported, per rank and never as trained tokens.
TEST(StepRunnerTest, PaddingIsCountedApart) {
  const auto outcomes =
      RunPlan(Plan(2, 13, {MicroBatch(0, 2, {7}), MicroBatch(1, 1, {6})}),
              ReadAllTrained, 2);
  EXPECT_EQ(outcomes[0].result.padded_tokens, 4);
  EXPECT_EQ(outcomes[1].result.padded_tokens, 10);
  EXPECT_EQ(outcomes[1].result.trained_tokens, 13);
}

// Runs each rank's part of a test with the real decoder; what rank r does is
// noted in the r-th ring, if there are rings.
template <typename Body>
std::vector<absl::Status> WithDecoder(
    int world, const Body& body, at::ScalarType type = at::kFloat,
    std::vector<FlightRecorder>* rings = nullptr) {
  Fabric fabric(BackEnd::kInProcess);
  return RunRanks(world, [&](int rank) -> absl::Status {
    at::set_num_threads(1);
    EVENSTEP_ASSIGN_OR_RETURN(auto factory, fabric.MakeFactory());
    if (rings != nullptr) {
      factory = MakeRecordingFactory(std::move(factory), &rings->at(rank));
    }
    EVENSTEP_ASSIGN_OR_RETURN(auto groups,
                              GroupTree::Build(*factory, 1, rank, world));
    DecoderConfig config = SmallConfig();
    config.dtype = type;
    EVENSTEP_ASSIGN_OR_RETURN(auto model, MakeDecoder(config));
    return body(*model, *groups);
  });
}

absl::StatusOr<data::SampleTokens> ReadRandom(int64_t id) {
  return RandomSample(id, id, 13);
}

// Of all parameters, one after the other: in float32, as sums of bfloat16 are.
std::vector<float> GradientsOf(const Model& model) {
  std::vector<float> flat;
  for (const NamedParameter& p : model.parameters()) {
    const float* values = p.value.grad().const_data_ptr<float>();
    flat.insert(flat.end(), values, values + p.value.numel());
  }
  return flat;
}

// Gradients of one micro-batch on four ranks with 0, 1 and 2 layers recomputed.
absl::Status CompareRecompute(Model& model, GroupTree& groups,
                              int ulysses_degree, Sharding sharding) {
  StepRunner runner(&model, GroupsOf(&groups), {.sharding = sharding});
  std::vector<std::vector<float>> gradients;
  for (int layers : {0, 1, 2}) {
    auto shared = MicroBatch(0, 4, {9, 4, 18});
    shared.recompute_layers = layers;
    shared.ulysses_degree = ulysses_degree;
    EVENSTEP_RETURN_IF_ERROR(
        runner.Run(Plan(4, 28, {shared}), ReadRandom).status());
    gradients.push_back(GradientsOf(model));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
  return absl::OkStatus();
}

// Under gathered keys, exchanged heads and both; in float32, and in bfloat16
// with optimizer states split.
TEST(StepRunnerTest, RecomputeGivesTheSameBits) {
  for (const Sharding sharding : {Sharding::kNone, Sharding::kZero1}) {
    const bool split = sharding == Sharding::kZero1;
    for (const int ulysses : {1, 2, 4}) {
      SCOPED_TRACE(ulysses);
      const auto statuses = WithDecoder(
          4,
          [&](Model& model, GroupTree& groups) {
            return CompareRecompute(model, groups, ulysses, sharding);
          },
          split ? at::kBFloat16 : at::kFloat);
      EXPECT_THAT(statuses, Each(absl::OkStatus()));
    }
  }
}

class IgnoresRecompute : public LossOfPosition {
 public:
  std::vector<LayerKind> layers() const override { return {{"block", 2}}; }
};

TEST(StepRunnerTest, AModelThatIgnoresRecomputeIsRefused) {
  std::vector<wire::PlannedMicroBatch> micro_batches = {MicroBatch(0, 1, {3})};
  micro_batches[0].recompute_layers = 2;
  const auto outcomes =
      RunPlan<IgnoresRecompute>(Plan(1, 3, micro_batches), ReadAllTrained, 1);
  EXPECT_EQ(outcomes[0].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outcomes[0].status.message()),
              HasSubstr("ran 0 layers through RunRecomputed where the plan "
                        "recomputes 2"));
}

// Each micro-batch adds 1/4096 to a gradient of about 1: bfloat16 would drop
// them all (its digits end at 1/256), float32 keeps them.
class SmallSteps : public Model {
 public:
  SmallSteps()
      : parameters_(
            {{"w", at::ones({1}, at::kBFloat16).requires_grad_(true)}}) {}
  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }
  std::vector<LayerKind> layers() const override { return {}; }
  at::Tensor Forward(const PackedShard& shard, SequenceAttention&,
                     const ForwardOptions&) override {
    const double weight = shard.real_tokens == 4096 ? 4096 : 1;
    return at::mul(parameters_[0].value.sum().to(at::kFloat), weight);
  }
  double gradient() const {
    return parameters_[0].value.grad().item().toDouble();
  }

 private:
  std::vector<NamedParameter> parameters_;
};

TEST(StepRunnerTest, GradientsOfBFloat16ParametersAddUpInFloat32) {
  std::vector<wire::PlannedMicroBatch> micro_batches(17, MicroBatch(0, 1, {1}));
  micro_batches[0] = MicroBatch(0, 1, {4096});
  const auto outcomes =
      RunPlan<SmallSteps>(Plan(1, 4112, micro_batches), ReadAllTrained, 1);
  ASSERT_TRUE(outcomes[0].status.ok()) << outcomes[0].status;
  EXPECT_NEAR(outcomes[0].gradient * 4112 / 4096, 1 + 16.0 / 4096, 1e-4);
}

TEST(StepRunnerTest, TimesInCollectivesArePartOfTheTotal) {
  const auto statuses =
      WithDecoder(2, [](Model& model, GroupTree& groups) -> absl::Status {
        StepRunner runner(&model, GroupsOf(&groups));
        EVENSTEP_ASSIGN_OR_RETURN(
            StepResult result,
            runner.Run(Plan(2, 14,
                            {MicroBatch(0, 2, {9}), MicroBatch(0, 1, {4}),
                             MicroBatch(1, 1, {4})}),
                       ReadRandom));
        EXPECT_GT(result.reduction_ns, 0);
        EXPECT_GT(result.micro_batches[0].collective_ns, 0);
        EXPECT_GT(result.micro_batches[0].total_ns,
                  result.micro_batches[0].collective_ns);
        EXPECT_EQ(result.micro_batches[1].collective_ns, 0);
        return absl::OkStatus();
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Until the rank is in a collective.
CollectiveKind AwaitOpenEntry(const FlightRecorder& ring) {
  while (true) {
    const auto entries = ring.Entries();
    if (!entries.empty() && entries.back().ended == absl::InfiniteDuration()) {
      return entries.back().kind;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// Rank 0 waits for rank 1 in the exchange of heads.
TEST(StepRunnerTest, AnAbortDuringAttentionEndsTheStep) {
  absl::Notification over;
  std::vector<FlightRecorder> rings(2);
  const auto statuses = WithDecoder(
      2,
      [&](Model& model, GroupTree& groups) -> absl::Status {
        if (groups.rank() == 1) {
          over.WaitForNotification();
          return absl::OkStatus();
        }
        StepRunner runner(&model, GroupsOf(&groups));
        std::thread killer([&] {
          EXPECT_EQ(AwaitOpenEntry(rings[0]), CollectiveKind::kAllToAll);
          groups.Abort("a node was lost");
        });
        const absl::Status status =
            runner.Run(Plan(2, 8, {MicroBatch(0, 2, {9})}), ReadRandom)
                .status();
        killer.join();
        over.Notify();
        return status;
      },
      at::kFloat, &rings);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("a node was lost"));
}

TEST(StepRunnerTest, HeadsThatDoNotDivideAreRefusedWithTheNumbers) {
  const auto statuses =
      WithDecoder(8, [](Model& model, GroupTree& groups) -> absl::Status {
        StepRunner runner(&model, GroupsOf(&groups));
        return runner.Run(Plan(8, 8, {MicroBatch(0, 8, {9})}), ReadRandom)
            .status();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("degree 8 does not fit 4 query heads"));
  }
}

TEST(CheckHeadsTest, DegreesFollowTheHeads) {
  for (int degree : {1, 2, 4, 8, 40}) {
    EXPECT_TRUE(CheckHeads(40, 8, degree, IrregularHeads::kRefuse).ok())
        << degree;
  }
  for (int degree : {3, 5, 10, 20}) {
    EXPECT_FALSE(CheckHeads(40, 8, degree, IrregularHeads::kRefuse).ok())
        << degree;
  }
  EXPECT_TRUE(CheckHeads(12, 12, 4, IrregularHeads::kRefuse).ok());
  EXPECT_FALSE(CheckHeads(28, 28, 8, IrregularHeads::kRefuse).ok());
  for (int degree : {5, 10, 20}) {
    EXPECT_TRUE(CheckHeads(40, 8, degree, IrregularHeads::kExpand).ok());
  }
  EXPECT_FALSE(CheckHeads(40, 8, 3, IrregularHeads::kExpand).ok());
  EXPECT_FALSE(CheckHeads(28, 28, 8, IrregularHeads::kExpand).ok());
}

std::vector<int64_t> Values(const at::Tensor& x) {
  return {x.const_data_ptr<int64_t>(), x.const_data_ptr<int64_t>() + x.numel()};
}

// Length 7 at degree 2 is padded to 8, with 7 real tokens.
TEST(MakeShardTest, ThePaddedTailIsMasked) {
  const std::vector<data::SampleTokens> samples = {
      {{5, 6, 7}, {6, 7, data::kIgnoredTarget}}, {{1, 2, 3, 4}, {2, 3, 4, 9}}};
  const auto first = MakeShard(samples, {.ulysses = 2}, 0);
  const auto second = MakeShard(samples, {.ulysses = 2}, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->padded_tokens, 8);
  EXPECT_EQ(first->real_tokens, 7);
  EXPECT_THAT(first->document_lengths, ElementsAre(3, 4));
  EXPECT_THAT(Values(first->tokens_T), ElementsAre(5, 6, 7, 1));
  EXPECT_THAT(Values(first->positions_T), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(Values(first->targets_T), ElementsAre(6, 7, -100, 2));
  EXPECT_THAT(Values(second->tokens_T), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(Values(second->positions_T), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(Values(second->targets_T), ElementsAre(3, 4, 9, -100));
  EXPECT_EQ(first->trained_tokens, 3);
  EXPECT_EQ(second->trained_tokens, 3);
}

// The same samples are padded anew for each degree.
TEST(MakeShardTest, PaddingFollowsTheDegree) {
  const std::vector<data::SampleTokens> samples = {Masked(698, 698)};
  for (const auto& [degree, padded] :
       std::vector<std::pair<int, int64_t>>{{1, 698}, {4, 700}, {8, 704}}) {
    EXPECT_EQ(MakeShard(samples, {.ulysses = degree}, 0)->padded_tokens,
              padded);
  }
}

// Under zigzag the tail of the document is masked, and nobody's trained token.
TEST(MakeShardTest, ZigzagSharesChunksFromBothEnds) {
  data::SampleTokens sample;
  for (int i = 0; i < 7; ++i) {
    sample.tokens.push_back(i + 1);
    sample.targets.push_back(i + 2);
  }
  const auto first = MakeShard({sample}, {.gather = 2}, 0);
  const auto second = MakeShard({sample}, {.gather = 2}, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->padded_tokens, 8);
  EXPECT_THAT(Values(first->tokens_T), ElementsAre(1, 2, 7, 0));
  EXPECT_THAT(Values(first->positions_T), ElementsAre(0, 1, 6, 0));
  EXPECT_THAT(Values(first->targets_T), ElementsAre(2, 3, 8, -100));
  EXPECT_THAT(Values(second->positions_T), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(first->trained_tokens + second->trained_tokens, 7);
}

TEST(MakeShardTest, BadSamplesAreRefused) {
  EXPECT_FALSE(MakeShard({}, {.ulysses = 1}, 0).ok());
  EXPECT_FALSE(MakeShard({data::SampleTokens{}}, {.ulysses = 1}, 0).ok());
  EXPECT_FALSE(
      MakeShard({data::SampleTokens{{1, 2}, {2}}}, {.ulysses = 1}, 0).ok());
  EXPECT_FALSE(MakeShard({Masked(4, 4)}, {.ulysses = 2}, 2).ok());
}

}  // namespace
}  // namespace evenstep::trainer
