// Checks that need a GPU, for tests/device/run.sh: the CPU's results are the
// oracle, and measurements are printed beside them. The last line counts.

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "worker/trainer/comm/nccl_communicator.h"
#include "worker/trainer/cuda/cuda_support.h"
#include "worker/trainer/cuda/nccl_functions.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/device_kernels.h"
#include "worker/trainer/model/varlen_attention.h"
#include "worker/trainer/parallel/shard.h"

namespace evenstep::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 5;

at::Device Gpu() { return at::Device(at::kCUDA, 0); }

void Synchronize() { c10::cuda::getCurrentCUDAStream().synchronize(); }

absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = a.to(at::kCPU, at::kDouble);
  return at::sub(wide, b.to(at::kCPU, at::kDouble)).abs().max().item<double>();
}

// Attention of a group of one.
class LocalAttention : public SequenceAttention {
 public:
  explicit LocalAttention(const PackedShard* shard) : shard_(*shard) {}
  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD, AttentionMask mask) override {
    return VarlenAttention(q_THD, k_TGD, v_TGD, shard_.document_lengths, mask);
  }

 private:
  const PackedShard& shard_;
};

absl::StatusOr<PackedShard> MakeDocuments(const std::vector<int64_t>& lengths,
                                          int vocab) {
  std::vector<data::SampleTokens> samples;
  int token = 1;
  for (const int64_t length : lengths) {
    data::SampleTokens sample;
    for (int64_t i = 0; i < length; ++i) {
      token = (token * 1103515 + 12345) % vocab;
      sample.tokens.push_back(token);
      sample.targets.push_back((token * 7 + 1) % vocab);
    }
    samples.push_back(std::move(sample));
  }
  return MakeShard(samples, {1, 1}, 0);
}

struct PassResult {
  double loss = 0;
  std::vector<at::Tensor> gradients;
  double milliseconds = 0;
  int64_t peak_bytes = 0;  // of CUDA's allocator, above what was there
};

PassResult RunPass(Model& model, const PackedShard& shard, int recompute) {
  using c10::cuda::CUDACachingAllocator::getDeviceStats;
  constexpr int kAll = 0;  // StatType::AGGREGATE
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  const int64_t before = getDeviceStats(0).allocated_bytes[kAll].current;
  std::vector<at::Tensor> parameters;
  for (const NamedParameter& p : model.parameters()) {
    parameters.push_back(p.value);
  }
  LocalAttention attention(&shard);
  Synchronize();
  const Clock::time_point begin = Clock::now();
  const at::Tensor loss =
      model.Forward(shard, attention, {.recompute_layers = recompute});
  PassResult result;
  result.gradients = torch::autograd::grad({loss}, parameters);
  Synchronize();
  result.milliseconds =
      std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  result.peak_bytes = getDeviceStats(0).allocated_bytes[kAll].peak - before;
  result.loss = loss.item().toDouble();
  return result;
}

PassResult MedianPass(Model& model, const PackedShard& shard, int recompute) {
  RunPass(model, shard, recompute);  // the first one chooses kernels
  std::vector<PassResult> passes;
  for (int i = 0; i < kRepeats; ++i) {
    passes.push_back(RunPass(model, shard, recompute));
    passes.back().gradients.clear();
  }
  std::sort(passes.begin(), passes.end(), [](const auto& a, const auto& b) {
    return a.milliseconds < b.milliseconds;
  });
  return passes[kRepeats / 2];
}

DecoderConfig SmallConfig(at::ScalarType dtype, at::Device device) {
  DecoderConfig config;
  config.layers = 4;
  config.width = 64;
  config.heads = 4;
  config.kv_heads = 2;
  config.seed = 7;
  config.dtype = dtype;
  config.device = device;
  return config;
}

DecoderConfig LargeConfig() {
  DecoderConfig config;
  config.layers = 8;
  config.width = 1024;
  config.heads = 16;
  config.kv_heads = 4;
  config.dtype = at::kBFloat16;
  config.device = Gpu();
  return config;
}

absl::Status ParityOfCpuAndCuda() {
  EVENSTEP_ASSIGN_OR_RETURN(const PackedShard shard,
                            MakeDocuments({37, 1, 64, 2}, 257));
  EVENSTEP_ASSIGN_OR_RETURN(auto cpu,
                            MakeDecoder(SmallConfig(at::kDouble, at::kCPU)));
  EVENSTEP_ASSIGN_OR_RETURN(auto gpu,
                            MakeDecoder(SmallConfig(at::kDouble, Gpu())));
  const PassResult a = RunPass(*cpu, shard, 0);
  const PassResult b = RunPass(*gpu, shard, 0);
  double worst = std::abs(a.loss - b.loss) / a.loss;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    worst = std::max(worst, Difference(b.gradients[i], a.gradients[i]) /
                                a.gradients[i].abs().max().item<double>());
  }
  absl::PrintF("  float64, worst relative difference %.2e\n", worst);
  return Expect(worst < 1e-10, "CPU and CUDA differ by more than 1e-10");
}

absl::Status VarlenFlashAttention() {
  const std::vector<int64_t> lengths = {300, 1, 1000, 2};
  const auto random = [](int64_t heads) {
    return at::randn({1310, heads, 64}, at::kFloat)
        .to(Gpu(), at::kBFloat16)
        .requires_grad_(true);
  };
  const at::Tensor q = random(8);
  const at::Tensor k = random(2);
  const at::Tensor v = random(2);
  EVENSTEP_RETURN_IF_ERROR(
      Expect(HasFlashVarlenAttention(q), "flash attention is not taken"));
  const at::Tensor out =
      VarlenAttention(q, k, v, lengths, AttentionMask::kCausal);
  const auto gradients = torch::autograd::grad({out.sum()}, {q, k, v});
  double worst = 0;
  int64_t start = 0;
  for (const int64_t length : lengths) {
    const auto document = [&](const at::Tensor& x) {
      return x.detach().narrow(0, start, length).to(at::kFloat);
    };
    const AttentionBlock block = AttendBlockByOps(
        document(q), document(k), document(v), AttentionMask::kCausal);
    const AttentionBlockGradient gradient = AttendBlockBackwardByOps(
        at::ones_like(block.out_LHD), document(q), document(k), document(v),
        block, AttentionMask::kCausal);
    worst = std::max({worst, Difference(document(out), block.out_LHD),
                      Difference(document(gradients[0]), gradient.dq_LHD) /
                          gradient.dq_LHD.abs().max().item<double>(),
                      Difference(document(gradients[1]), gradient.dk_SGD) /
                          gradient.dk_SGD.abs().max().item<double>(),
                      Difference(document(gradients[2]), gradient.dv_SGD) /
                          gradient.dv_SGD.abs().max().item<double>()});
    start += length;
  }
  absl::PrintF("  bfloat16, worst difference %.2e\n", worst);
  return Expect(worst < 3e-2, "flash attention differs from float32 by 3e-2");
}

// The share of a pass that recompute costs falls or rises with length: what
// DCP-intra trades, at degree 1.
absl::Status RecomputeMemoryAndTime() {
  EVENSTEP_ASSIGN_OR_RETURN(auto model, MakeDecoder(LargeConfig()));
  const int layers = LargeConfig().layers;
  bool smaller = true;
  for (const int64_t length : {1024, 4096, 16384, 32768}) {
    EVENSTEP_ASSIGN_OR_RETURN(
        const PackedShard shard,
        MakeDocuments(std::vector<int64_t>(32768 / length, length), 257));
    const PassResult plain = MedianPass(*model, shard, 0);
    const PassResult half = MedianPass(*model, shard, layers / 2);
    const PassResult full = MedianPass(*model, shard, layers);
    absl::PrintF(
        "  %2d documents of %5d tokens: none %.1f ms %d MB, half %.1f ms %d MB,"
        " full %.1f ms %d MB; full / none: time %.3f, memory %.3f\n",
        32768 / length, length, plain.milliseconds, plain.peak_bytes >> 20,
        half.milliseconds, half.peak_bytes >> 20, full.milliseconds,
        full.peak_bytes >> 20, full.milliseconds / plain.milliseconds,
        static_cast<double>(full.peak_bytes) /
            static_cast<double>(plain.peak_bytes));
    smaller = smaller && full.peak_bytes * 10 <= plain.peak_bytes * 4;
  }
  return Expect(smaller, "full recompute keeps more than 40 % of the memory");
}

absl::Status BFloat16IsCloseToFloat() {
  EVENSTEP_ASSIGN_OR_RETURN(const PackedShard shard,
                            MakeDocuments({300, 41, 512}, 257));
  EVENSTEP_ASSIGN_OR_RETURN(auto exact,
                            MakeDecoder(SmallConfig(at::kFloat, Gpu())));
  EVENSTEP_ASSIGN_OR_RETURN(auto rounded,
                            MakeDecoder(SmallConfig(at::kBFloat16, Gpu())));
  const double loss = RunPass(*exact, shard, 0).loss;
  const double difference =
      std::abs(RunPass(*rounded, shard, 0).loss - loss) / loss;
  absl::PrintF("  losses of float32 and bfloat16 differ by %.2e\n", difference);
  return Expect(difference < 1e-2, "bfloat16 is off by more than 1e-2");
}

absl::Status NcclWithOneRank() {
  const std::unique_ptr<NcclTable> table = MakeNcclFunctions();
  MemoryRendezvousStore store;
  NcclOptions options;
  options.end_process = [](absl::string_view why) {
    absl::PrintF("  hung: %s\n", why);
    std::_Exit(1);
  };
  options.stream = c10::cuda::getCurrentCUDAStream().stream();
  auto factory = MakeNcclFactory(options, table.get(), &store);
  EVENSTEP_ASSIGN_OR_RETURN(auto alone, factory->Create("alone", {0, 1}, 0));
  const at::Tensor send = at::arange(1000, at::kFloat).to(Gpu());
  const at::Tensor recv = at::zeros_like(send);
  EVENSTEP_RETURN_IF_ERROR(
      Expect(IsOnDevice(send.const_data_ptr()), "device memory is unknown"));
  const std::vector<int64_t> bytes = {4000};
  EVENSTEP_RETURN_IF_ERROR(alone->AllToAllv(send.const_data_ptr(), bytes,
                                            recv.mutable_data_ptr(), bytes));
  EVENSTEP_RETURN_IF_ERROR(Expect(Difference(send, recv) == 0, "all-to-all"));
  recv.zero_();
  EVENSTEP_RETURN_IF_ERROR(alone->ReduceScatterSum(
      absl::MakeConstSpan(send.const_data_ptr<float>(), 1000), {1000},
      absl::MakeSpan(recv.mutable_data_ptr<float>(), 1000)));
  EVENSTEP_RETURN_IF_ERROR(
      Expect(Difference(send, recv) == 0, "reduce-scatter"));
  EVENSTEP_RETURN_IF_ERROR(alone->AllReduceSum(
      absl::MakeSpan(recv.mutable_data_ptr<float>(), 1000)));
  EVENSTEP_RETURN_IF_ERROR(Expect(Difference(send, recv) == 0, "all-reduce"));
  alone->Abort("the check is over");
  return Expect(absl::IsAborted(alone->Barrier()), "an aborted group works");
}

absl::Status ShortBenchmark() {
  EVENSTEP_ASSIGN_OR_RETURN(auto model, MakeDecoder(LargeConfig()));
  EVENSTEP_ASSIGN_OR_RETURN(
      const PackedShard shard,
      MakeDocuments({8192, 4096, 2048, 1024, 512, 256, 128, 128}, 257));
  const PassResult pass = MedianPass(*model, shard, 0);
  absl::PrintF(
      "  bfloat16, 8 layers, width 1024: %.0f tokens/s\n",
      static_cast<double>(shard.real_tokens) * 1e3 / pass.milliseconds);
  return absl::OkStatus();
}

// True if the check passed.
bool Check(const char* name, absl::Status (*body)()) {
  const absl::Status status = CatchTorch(name, body);
  absl::PrintF("%s: %s\n", name, status.ok() ? "ok" : status.ToString());
  std::fflush(stdout);
  return status.ok();
}

int Run() {
  const DeviceSupport cuda = MakeCudaSupport();
  const auto device = cuda.start(0);
  if (!device.ok()) {
    absl::PrintF("skipped: device: %s\n0 passed, 0 failed, 1 skipped\n",
                 device.status().ToString());
    return 0;
  }
  const std::pair<const char*, absl::Status (*)()> checks[] = {
      {"parity of CPU and CUDA", ParityOfCpuAndCuda},
      {"varlen flash attention", VarlenFlashAttention},
      {"recompute, memory and time", RecomputeMemoryAndTime},
      {"bfloat16", BFloat16IsCloseToFloat},
      {"NCCL with one rank", NcclWithOneRank},
      {"short benchmark", ShortBenchmark}};
  int passed = 0;
  int failed = 0;
  for (const auto& [name, body] : checks)
    ++(Check(name, body) ? passed : failed);
  absl::PrintF("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace evenstep::trainer

int main() { return evenstep::trainer::Run(); }
