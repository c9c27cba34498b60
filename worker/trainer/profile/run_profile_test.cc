#include "worker/trainer/profile/run_profile.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/costs/cost_limits.h"
#include "worker/trainer/comm/flight_recorder.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/profile/profile_key.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

ProfileRun SmallRun(int ranks) {
  ProfileRun run;
  run.spec.model.layers = 2;
  run.spec.model.width = 16;
  run.spec.model.heads = run.spec.model.kv_heads = 2;
  run.spec.memory.tokens_per_rank = 64;
  run.ranks = ranks;
  run.repeats = 1;
  return run;
}

TEST(RunProfileTest, EveryPointIsTimedAndCostsArePhysical) {
  const auto profile = RunProfile(SmallRun(2));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_GT(profile->points.size(), 10);
  for (const jobspec::ProfilePoint& point : profile->points) {
    EXPECT_GT(point.compute_ns, 0);
    EXPECT_EQ(point.collective_ns > 0, point.degree > 1);
  }
  EXPECT_GT(profile->costs.step_fixed_ns, 0);
  EXPECT_TRUE(planner::ValidateTime(profile->costs).ok());
  EXPECT_EQ(profile->key,
            LocalProfileKey(SmallRun(2).spec, {c10::kCPU, 1, ""}));
}

TEST(RunProfileTest, DegreesThatGatherHaveCostsOfTheirOwn) {
  ProfileRun run = SmallRun(2);
  run.spec.model.sp_modes = {planner::SpMode::kKvGather};
  const auto profile = RunProfile(run);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->costs.collective.empty());
  ASSERT_EQ(profile->costs.gather.size(), 1u);
  EXPECT_EQ(profile->costs.gather[0].degree, 2);
  EXPECT_GT(profile->costs.gather[0].ns_per_token +
                static_cast<double>(profile->costs.collective_latency_ns),
            0);
}

// Before any tensor of the process.
const bool kCounted = [] {
  CountTensorBytes();
  return true;
}();

TEST(RunProfileTest, BytesOfTheLargestPointAreAsPredicted) {
  ASSERT_TRUE(kCounted);
  ProfileRun run = SmallRun(2);
  run.spec.model.width = 64;
  run.spec.memory.tokens_per_rank = 512;
  const auto profile = RunProfile(run);
  ASSERT_TRUE(profile.ok()) << profile.status();
  for (const jobspec::ProfilePoint& point : profile->points) {
    EXPECT_GT(point.activation_bytes, 0);
    if (point.lengths != std::vector<int64_t>{512}) continue;
    EXPECT_NEAR(static_cast<double>(point.predicted_bytes) /
                    static_cast<double>(point.activation_bytes),
                1, 0.15);
  }
}

TEST(RunProfileTest, ClipsAreTimedWithCostsOfEitherKindOfLayer) {
  ProfileRun run = SmallRun(2);
  run.spec.model.kind = jobspec::ModelKind::kVideo;
  run.spec.model.channels = 3;
  run.spec.memory.tokens_per_rank = 256;
  const auto profile = RunProfile(run);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_GT(profile->points.size(), 10);
  for (const jobspec::ProfilePoint& point : profile->points) {
    EXPECT_GT(point.compute_ns, 0);
    EXPECT_EQ(point.collective_ns > 0, point.degree > 1);
    EXPECT_GT(point.predicted_bytes, 0);
  }
  EXPECT_GT(profile->costs.spatial.linear_ns_per_token, 0);
  EXPECT_EQ(profile->costs.spatial.linear_ns_per_token,
            profile->costs.temporal.linear_ns_per_token);
  EXPECT_EQ(profile->costs.linear_ns_per_token, 0);
  ASSERT_EQ(profile->costs.collective.size(), 1u);
  EXPECT_TRUE(planner::ValidateTime(profile->costs).ok());
}

TEST(RunProfileTest, OneRankHasNoCollectives) {
  const auto profile = RunProfile(SmallRun(1));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->costs.collective.empty());
  EXPECT_EQ(profile->costs.collective_latency_ns, 0);
}

// Stands in for a device on the CPU.
DeviceSupport NamedCpus(int count) {
  DeviceSupport device;
  device.start = [count](int rank) -> absl::StatusOr<c10::Device> {
    if (rank < count) return c10::Device(c10::kCPU);
    return absl::UnavailableError("no device left");
  };
  device.name = [](c10::Device) { return "pretended"; };
  device.make_factory = [](DeviceSupport::GroupParts parts)
      -> absl::StatusOr<std::unique_ptr<CommunicatorFactory>> {
    return std::move(parts.host);
  };
  return device;
}

TEST(RunProfileTest, ADevicesMemoryIsFilled) {
  const DeviceSupport device = NamedCpus(2);
  ProfileRun run = SmallRun(2);
  run.spec.data.max_length = 24;
  run.device = &device;
  const auto profile = RunProfile(run);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->points[0].lengths, (std::vector<int64_t>{24, 24, 16}));
}

TEST(RunProfileTest, EveryRankNeedsADevice) {
  const DeviceSupport device = NamedCpus(0);
  ProfileRun run = SmallRun(1);
  run.device = &device;
  EXPECT_EQ(RunProfile(run).status(), absl::UnavailableError("no device left"));
}

// Rank 0 has one, and waits for rank 1's address.
TEST(RunProfileTest, ARankWithoutADeviceFailsItsPeersAtOnce) {
  const DeviceSupport device = NamedCpus(1);
  ProfileRun run = SmallRun(2);
  run.device = &device;
  const absl::Time begin = absl::Now();
  EXPECT_EQ(RunProfile(run).status(), absl::UnavailableError("no device left"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10)) << "not by a time-out";
}

// All-gathers that a profile makes with groups that are noted.
int64_t CountGathers(ProfileRun run) {
  FlightRecorder ring(/*capacity=*/10'000);
  DeviceSupport device = NamedCpus(2);
  device.make_factory = [&ring](DeviceSupport::GroupParts parts)
      -> absl::StatusOr<std::unique_ptr<CommunicatorFactory>> {
    return MakeRecordingFactory(std::move(parts.host), &ring);
  };
  run.device = &device;
  const absl::Status status = RunProfile(run).status();
  EXPECT_TRUE(status.ok()) << status;
  const auto entries = ring.Entries();
  EXPECT_LT(entries.size(), 10'000) << "some may be forgotten";
  return std::count_if(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.kind == CollectiveKind::kAllGather;
  });
}

// The fixed cost of a step is an update as the job makes it: split states end
// with a gathering of parameters, whole ones with none.
TEST(RunProfileTest, TheUpdateIsSplitAsTheJobsIs) {
  ProfileRun run = SmallRun(2);
  EXPECT_EQ(CountGathers(run), 0);
  run.spec.optimizer.sharding = jobspec::OptimizerSharding::kZero1;
  EXPECT_GT(CountGathers(run), 0);
}

TEST(LocalProfileKeyTest, ADeviceHasItsMakersName) {
  const jobspec::ProfileKey key = LocalProfileKey(
      SmallRun(1).spec, {c10::Device(c10::kCUDA, 0), 3, "NVIDIA H200"});
  EXPECT_EQ(key.device, "cuda NVIDIA H200");
}

TEST(LocalProfileKeyTest, NamesModelDeviceSoftwareAndPrecision) {
  const jobspec::ProfileKey key =
      LocalProfileKey(SmallRun(1).spec, {c10::kCPU, 3, ""});
  EXPECT_THAT(key.model, HasSubstr("layers=2 width=16"));
  EXPECT_THAT(key.device, HasSubstr("threads 3"));
  EXPECT_THAT(key.software, HasSubstr("torch 2."));
  EXPECT_EQ(key.precision, "float32");
  jobspec::JobSpec split = SmallRun(1).spec;
  split.optimizer.sharding = jobspec::OptimizerSharding::kZero1;
  EXPECT_EQ(LocalProfileKey(split, {c10::kCPU, 3, ""}).precision,
            "float32, optimizer zero1");
}

}  // namespace
}  // namespace evenstep::trainer
