// Law 2: every plan's gradient equals that of one process over the same
// samples. The oracle is the slow decoder of testing/oracle.h; float64.

#include "worker/trainer/testing/parity.h"

#include <ATen/ops/mul.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <random>
#include <utility>

namespace evenstep::trainer {
namespace {

using testing::BackEnd;
using testing::ParityOptions;
using testing::ParityReport;
using testing::RunParity;
using testing::SmallConfig;
using testing::TestMicroBatch;

constexpr double kTolerance = 1e-10;

ParityReport MustRun(const ParityOptions& options) {
  absl::StatusOr<ParityReport> report = RunParity(options);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) {
    ParityReport none;
    none.loss = none.gradient = none.parameter = INFINITY;
    return none;
  }
  return *std::move(report);
}

void ExpectParity(const ParityOptions& options) {
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, kTolerance);
  EXPECT_LE(report.gradient, kTolerance);
  EXPECT_LE(report.parameter, kTolerance);
}

ParityOptions OneStep(int world, std::vector<TestMicroBatch> micro_batches) {
  ParityOptions options;
  options.config = SmallConfig();
  options.world = world;
  options.steps = {std::move(micro_batches)};
  return options;
}

TEST(ParityTest, OneRankPacksDocumentsOfAnyLength) {
  ExpectParity(OneStep(1, {{0, 1, {5, 1, 2, 17, 3}}, {0, 1, {9}}}));
}

TEST(ParityTest, TwoRanksAtDegreeOne) {
  ExpectParity(OneStep(2, {{0, 1, {11, 1}}, {1, 1, {2, 23}}}));
}

TEST(ParityTest, TwoRanksShareAMicroBatch) {
  ExpectParity(OneStep(2, {{0, 2, {7, 2, 1, 19}}}));
}

// Four ranks over two key and value heads: those are replicated.
TEST(ParityTest, FourRanksShareAMicroBatchWithFewerKeyValueHeads) {
  ExpectParity(OneStep(4, {{0, 4, {13, 1, 6}}, {0, 4, {2}}}));
}

TEST(ParityTest, ASingleTokenIsSharedByFourRanks) {
  ExpectParity(OneStep(4, {{0, 4, {1}}, {0, 4, {30}}}));
}

TEST(ParityTest, DegreesAreMixedWithinAStep) {
  ExpectParity(OneStep(4, {{0, 4, {33, 2}},
                           {0, 2, {12, 1, 5}},
                           {2, 1, {8}},
                           {3, 1, {3, 3}},
                           {2, 2, {10}},
                           {0, 1, {4}}}));
}

// Hangs 9 and 14: ranks without work take part in the reduction.
TEST(ParityTest, RanksWithoutWorkTakePart) {
  ExpectParity(OneStep(4, {{1, 1, {6}}}));
  ExpectParity(OneStep(4, {{2, 2, {6, 9}}}));
}

// Hangs 8: five samples each, at most 100 tokens in a micro-batch of degree 1.
TEST(ParityTest, RanksWithDifferentNumbersOfMicroBatchesLeaveTogether) {
  ExpectParity(OneStep(2, {{0, 1, {95}},
                           {0, 1, {95}},
                           {1, 1, {20, 20, 20, 20, 20}},
                           {0, 1, {95}},
                           {0, 1, {95}},
                           {0, 1, {95}}}));
}

TEST(ParityTest, ThreeRanksReduceOverTheWorldsOwnGroup) {
  ExpectParity(OneStep(3, {{0, 2, {9, 4}}, {2, 1, {6}}}));
}

TEST(ParityTest, EveryRecomputeCountGivesTheSame) {
  for (int layers = 0; layers <= 3; ++layers) {
    ExpectParity(OneStep(2, {{0, 2, {7, 5}, layers}, {1, 1, {4, 1}, layers}}));
  }
}

TEST(ParityTest, AsManyKeyValueHeadsAsQueryHeads) {
  ParityOptions options = OneStep(4, {{0, 4, {9, 6}}, {0, 2, {5}}});
  options.config.kv_heads = 4;
  ExpectParity(options);
}

TEST(ParityTest, OneKeyValueHeadForAll) {
  ParityOptions options = OneStep(4, {{0, 4, {9, 6}}, {0, 2, {5, 1}}});
  options.config.kv_heads = 1;
  ExpectParity(options);
}

TEST(ParityTest, ParametersAgreeAfterTenSteps) {
  ParityOptions options = OneStep(4, {});
  options.steps.clear();
  for (int step = 0; step < 10; ++step) {
    const int64_t odd = 2 * step + 1;
    options.steps.push_back({{0, 4, {odd, 12}, step % 3},
                             {0, 2, {5, odd}},
                             {2, 1, {odd}},
                             {3, 1, {1, 7, 2}}});
  }
  ExpectParity(options);
}

TEST(ParityTest, GlooGivesTheSame) {
  std::signal(SIGPIPE, SIG_IGN);
  ParityOptions options =
      OneStep(4, {{0, 4, {33, 2}, 1}, {0, 2, {12, 1, 5}}, {2, 1, {8}}});
  options.back_end = BackEnd::kGloo;
  ExpectParity(options);
}

// Float32 differs by rounding only.
TEST(ParityTest, SinglePrecisionStaysWithinRounding) {
  ParityOptions options = OneStep(4, {{0, 4, {33, 2}}, {0, 2, {12}}});
  options.config.dtype = at::kFloat;
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, 1e-6);
  EXPECT_LE(report.gradient, 1e-4);
}

std::vector<TestMicroBatch> DrawPlan(std::mt19937_64& random, int world) {
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint64_t>(n));
  };
  std::vector<TestMicroBatch> plan(1 + below(5));
  for (TestMicroBatch& micro_batch : plan) {
    const int degree = 1 << below(3);
    micro_batch.degree = degree <= world ? degree : 1;
    micro_batch.first_rank =
        below(world / micro_batch.degree) * micro_batch.degree;
    micro_batch.recompute_layers = below(3);
    micro_batch.lengths.resize(1 + below(4));
    for (int64_t& length : micro_batch.lengths) length = 1 + below(24);
  }
  plan.front().lengths.push_back(2);  // at least one trained token
  return plan;
}

TEST(ParityTest, RandomPlans) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const int worlds[] = {2, 3, 4, 6, 8};
    const int world = worlds[seed % 5];
    ParityOptions options = OneStep(world, DrawPlan(random, world));
    options.config.kv_heads = 1 << (seed % 3);
    ExpectParity(options);
  }
}

// Planted errors. Each wraps the model as a careless author would write it, and
// must be reported by the same comparison.

class ModelDecorator : public Model {
 public:
  explicit ModelDecorator(std::unique_ptr<Model> model)
      : model_(std::move(model)) {}
  const std::vector<NamedParameter>& parameters() const override {
    return model_->parameters();
  }
  std::vector<LayerKind> layers() const override { return model_->layers(); }

 protected:
  const std::unique_ptr<Model> model_;
};

// Each part's own mean, averaged over the parts.
class MeanOfMeans : public ModelDecorator {
 public:
  MeanOfMeans(std::unique_ptr<Model> model, double trained_tokens, double parts)
      : ModelDecorator(std::move(model)),
        trained_tokens_(trained_tokens),
        parts_(parts) {}
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    const double own = std::max<double>(1, shard.trained_tokens);
    return at::mul(model_->Forward(shard, attention, options),
                   trained_tokens_ / (parts_ * own));
  }

 private:
  const double trained_tokens_;
  const double parts_;
};

class ScaledByDegree : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    return at::mul(model_->Forward(shard, attention, options),
                   1.0 / shard.degree);
  }
};

// Attention runs over the whole micro-batch as if it were one document.
class AcrossDocuments : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    auto& lengths = const_cast<PackedShard&>(shard).document_lengths;
    lengths = {shard.real_tokens};
    return model_->Forward(shard, attention, options);
  }
};

void ExpectReported(const ParityOptions& options) {
  const ParityReport report = MustRun(options);
  EXPECT_GT(report.loss, 1e-6);
  EXPECT_GT(report.gradient, 1e-4);
}

TEST(PlantedErrorTest, MeanOfMeansIsReported) {
  ParityOptions options = OneStep(2, {{0, 1, {11}}, {1, 1, {101}}});
  ExpectParity(options);
  options.wrap = [](std::unique_ptr<Model> model) {
    return std::make_unique<MeanOfMeans>(std::move(model), 110, 2);
  };
  ExpectReported(options);
}

TEST(PlantedErrorTest, AttentionAcrossDocumentsIsReported) {
  for (int degree : {1, 2}) {
    ParityOptions options = OneStep(2, {{0, degree, {9, 6, 4}}});
    ExpectParity(options);
    options.wrap = [](std::unique_ptr<Model> model) {
      return std::make_unique<AcrossDocuments>(std::move(model));
    };
    ExpectReported(options);
  }
}

TEST(PlantedErrorTest, ScaleByDegreeIsReported) {
  ParityOptions options = OneStep(4, {{0, 4, {21}}, {0, 1, {6}}});
  ExpectParity(options);
  options.wrap = [](std::unique_ptr<Model> model) {
    return std::make_unique<ScaledByDegree>(std::move(model));
  };
  ExpectReported(options);
}

}  // namespace
}  // namespace evenstep::trainer
