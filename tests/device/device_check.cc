// Checks that need a GPU, for tests/device/run.sh: the CPU's results are the
// oracle, and measurements are printed beside them. The last line counts. With
// words: only checks whose name contains one of them.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/usable_cores.h"
#include "tests/device/checks.h"
#include "worker/trainer/cuda/cuda_support.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {

void Synchronize() { c10::cuda::getCurrentCUDAStream().synchronize(); }

absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

double RelativeDifference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor exact = b.detach().to(at::kCPU, at::kDouble);
  const at::Tensor difference =
      (a.detach().to(at::kCPU, at::kDouble) - exact).abs().max();
  return difference.item<double>() /
         std::max(exact.abs().max().item<double>(), 1e-300);
}

namespace {

struct NamedCheck {
  const char* name;
  absl::Status (*body)();
};

constexpr NamedCheck kChecks[] = {
    {"step of one rank, float64, against the oracle",
     StepOfOneRankIsTheOracles},
    {"ranks that share the GPU, float64, against the oracle",
     ManyRanksOnOneDeviceAreTheOracle},
    {"bfloat16 against the oracle", HalfPrecisionStaysWithinRounding},
    {"norm, rotation, embedding against the CPU", NormRotationAndEmbedding},
    {"varlen flash attention", VarlenFlashAttention},
    {"flash attention in blocks", FlashAttentionInBlocks},
    {"NCCL collectives of one rank", NcclCollectivesOfOneRank},
    {"NCCL abort and rebuild", NcclAbortAndRebuild},
    {"reported times are the device's", ReportedTimesAreTheDevices},
    {"training speed", TrainingSpeed},
    {"recompute, memory and time", RecomputeMemoryAndTime},
};

bool IsWanted(const char* name, const std::vector<const char*>& words) {
  for (const char* word : words) {
    if (std::strstr(name, word) != nullptr) return true;
  }
  return words.empty();
}

// True if the check passed.
bool Passes(const NamedCheck& check) {
  const auto begin = std::chrono::steady_clock::now();
  absl::PrintF("%s\n", check.name);
  std::fflush(stdout);
  // Parity leaves one.
  at::set_num_threads(UsableCores());
  const absl::Status status = CatchTorch(check.name, check.body);
  c10::cuda::CUDACachingAllocator::emptyCache();
  absl::PrintF(
      "%s %s (%.1f s)\n", status.ok() ? "ok     " : "FAILED ",
      status.ok() ? check.name : status.ToString(),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count());
  std::fflush(stdout);
  return status.ok();
}

int Run(const std::vector<const char*>& words) {
  const auto device = MakeCudaSupport().start(0);
  if (!device.ok()) {
    absl::PrintF("skipped: device: %s\n0 passed, 0 failed, 1 skipped\n",
                 device.status().ToString());
    return 0;
  }
  int passed = 0;
  int failed = 0;
  for (const NamedCheck& check : kChecks) {
    if (IsWanted(check.name, words)) ++(Passes(check) ? passed : failed);
  }
  absl::PrintF("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace evenstep::trainer

int main(int argc, char** argv) {
  return evenstep::trainer::Run({argv + 1, argv + argc});
}
