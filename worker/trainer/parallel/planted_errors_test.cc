// Errors that others have made, planted: each must be reported by the same
// comparison that finds the engine right. A model or a group is wrapped as a
// careless author would write it.

#include <ATen/ops/mul.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using testing::ExpectParity;
using testing::MustRun;
using testing::OneStep;
using testing::ParityOptions;
using testing::ParityReport;

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

// Keys and values of the parts are laid down in the wrong order: the zigzag is
// undone as if parts were runs from the other end.
class ReversedParts : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  absl::Status Run(const Collective& call) override {
    absl::Status status = inner().Run(call);
    if (call.kind != CollectiveKind::kAllGather) return status;
    char* const parts = static_cast<char*>(call.recv);
    const int64_t bytes = call.recv_counts[0];
    for (int p = 0; p < size() / 2; ++p) {
      std::swap_ranges(parts + p * bytes, parts + (p + 1) * bytes,
                       parts + (size() - 1 - p) * bytes);
    }
    return status;
  }
};

// Each part keeps its own gradient of keys and values, without the others'.
class UnreducedKeyGradients : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  absl::Status Run(const Collective& call) override {
    absl::Status status = inner().Run(call);
    if (call.kind != CollectiveKind::kAllToAll) return status;
    char* part = static_cast<char*>(call.recv);
    for (int p = 0; p < size(); ++p) {
      if (p != rank()) std::memset(part, 0, call.recv_counts[p]);
      part += call.recv_counts[p];
    }
    return status;
  }
};

// Every rank draws noise of its own, as from a generator that each has seeded
// by itself.
class UnsynchronisedNoise : public ModelDecorator {
 public:
  UnsynchronisedNoise(std::unique_ptr<Model> model, int number)
      : ModelDecorator(std::move(model)), number_(number) {}
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    PackedShard other = shard;
    auto clips = std::make_shared<PackedClips>(*shard.clips);
    clips->timesteps.front() *= 1.0 / (1 + number_);
    other.clips = std::move(clips);
    return model_->Forward(other, attention, options);
  }

 private:
  const int number_;
};

// A rank keeps what it would send, as if the switch had forgotten it.
class LostSwitch : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  absl::Status Run(const Collective& call) override {
    absl::Status status = inner().Run(call);
    if (call.kind == CollectiveKind::kAllToAll) {
      std::memset(call.recv, 0, call.recv_counts[0]);
    }
    return status;
  }
};

ParityOptions OneClipOnTwoRanks() {
  ParityOptions options = OneStep(2, {{0, 2, {}}});
  options.video = testing::SmallVideoConfig();
  options.steps[0][0].shapes = {{4, 2, 3}};
  options.steps[0][0].sp_mode = planner::SpMode::kSwitch;
  options.steps[0][0].ulysses_degree = 1;
  return options;
}

// One document of all tokens in the place of several.
std::vector<data::SampleTokens> MergeDocuments(
    const std::vector<data::SampleTokens>& samples) {
  data::SampleTokens merged;
  for (const data::SampleTokens& sample : samples) {
    merged.tokens.insert(merged.tokens.end(), sample.tokens.begin(),
                         sample.tokens.end());
    merged.targets.insert(merged.targets.end(), sample.targets.begin(),
                          sample.targets.end());
  }
  return {merged};
}

// The sum over ranks of a rank's shard is made and never copied back.
class LostShard : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  absl::Status Run(const Collective& call) override {
    absl::Status status = inner().Run(call);
    if (call.kind != CollectiveKind::kReduceScatter) return status;
    const absl::Span<const int64_t> counts = call.send_counts;
    const int64_t begin =
        std::accumulate(counts.begin(), counts.begin() + rank(), int64_t{0});
    std::copy_n(static_cast<const double*>(call.send) + begin, counts[rank()],
                static_cast<double*>(call.recv));
    return status;
  }
};

// Parameters that other ranks have updated never arrive.
class LostParameters : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  absl::Status Run(const Collective& call) override {
    if (call.kind != CollectiveKind::kAllGather) return inner().Run(call);
    std::vector<char> lost(call.Bytes());
    Collective elsewhere = call;
    elsewhere.recv = lost.data();
    return inner().Run(elsewhere);
  }
};

template <typename Decorator>
std::unique_ptr<Communicator> WrapIn(std::unique_ptr<Communicator> group) {
  return std::make_unique<Decorator>(std::move(group));
}

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

// Where keys are gathered the borders of documents are known before the model
// runs: there the documents themselves are laid together.
TEST(PlantedErrorTest, DocumentsThatAreMergedBeforehandAreReported) {
  for (const auto& [degree, ulysses] :
       std::vector<std::pair<int, int>>{{2, 1}, {4, 2}, {4, 4}}) {
    SCOPED_TRACE(degree);
    ParityOptions options = OneStep(4, {{0, degree, {9, 6, 4}, 0, ulysses}});
    ExpectParity(options);
    options.repack = MergeDocuments;
    ExpectReported(options);
  }
}

// The loss is right, so only gradients can tell.
TEST(PlantedErrorTest, AShardThatIsNotSummedIsReported) {
  ParityOptions options = OneStep(2, {{0, 1, {11}}, {1, 1, {30}}});
  options.sharding = Sharding::kZero1;
  ExpectParity(options);
  options.wrap_group = WrapIn<LostShard>;
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, testing::kParityTolerance);
  EXPECT_GT(report.gradient, 1e-4);
  EXPECT_GT(report.parameter, 1e-4);
}

TEST(PlantedErrorTest, ParametersThatAreNotGatheredAreReported) {
  ParityOptions options = OneStep(2, {{0, 1, {11}}, {1, 1, {30}}});
  options.sharding = Sharding::kZero1;
  options.wrap_group = WrapIn<LostParameters>;
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.gradient, testing::kParityTolerance);
  EXPECT_GT(report.parameter, 1e-4);
}

TEST(PlantedErrorTest, AZigzagInTheWrongOrderIsReported) {
  ParityOptions options = OneStep(3, {{0, 3, {25, 14}, 0, 1}});
  ExpectParity(options);
  options.wrap_group = WrapIn<ReversedParts>;
  ExpectReported(options);
}

// The loss is right, so only gradients can tell.
TEST(PlantedErrorTest, AMissingSumOfKeyGradientsIsReported) {
  ParityOptions options = OneStep(3, {{0, 3, {25, 14}, 0, 1}});
  ExpectParity(options);
  options.wrap_group = WrapIn<UnreducedKeyGradients>;
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, testing::kParityTolerance);
  EXPECT_GT(report.gradient, 1e-4);
}

TEST(PlantedErrorTest, UnsynchronisedNoiseIsReported) {
  ParityOptions options = OneClipOnTwoRanks();
  ExpectParity(options);
  std::atomic<int> number = 0;
  options.wrap = [&number](std::unique_ptr<Model> model) {
    return std::make_unique<UnsynchronisedNoise>(std::move(model), number++);
  };
  ExpectReported(options);
}

TEST(PlantedErrorTest, ASwitchThatLosesTokensIsReported) {
  ParityOptions options = OneClipOnTwoRanks();
  options.wrap_group = WrapIn<LostSwitch>;
  ExpectReported(options);
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
