// The trainer's own groups for two memories, with the real NCCL, in a world of
// one: two ranks on one GPU are refused by NCCL.

#include <ATen/ATen.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tests/device/checks.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/cuda/cuda_support.h"
#include "worker/trainer/cuda/nccl_functions.h"

namespace evenstep::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A world of one, with Gloo's place taken by a back end in this process.
class OneRank {
 public:
  absl::StatusOr<std::unique_ptr<Communicator>> Create(const std::string& key) {
    if (factory_ == nullptr) {
      EVENSTEP_ASSIGN_OR_RETURN(factory_,
                                MakeCudaSupport().make_factory(
                                    {.host = hub_.MakeFactory(),
                                     .store = &store_,
                                     .timeout = absl::Seconds(30),
                                     .end_process = [](absl::string_view why) {
                                       absl::PrintF("  hung: %s\n", why);
                                       std::_Exit(1);
                                     }}));
    }
    return factory_->Create(key, {0, 1}, 0);
  }

 private:
  InProcessHub hub_;
  MemoryRendezvousStore store_;
  std::unique_ptr<CommunicatorFactory> factory_;
};

template <typename T>
at::Tensor Numbers(int64_t count) {
  return at::arange(
      count,
      at::TensorOptions(c10::CppTypeToScalarType<T>::value).device(Gpu()));
}

template <typename T>
absl::Span<T> SpanOf(const at::Tensor& x) {
  return absl::MakeSpan(x.mutable_data_ptr<T>(), x.numel());
}

absl::Status ExpectSame(const at::Tensor& a, const at::Tensor& b,
                        absl::string_view what) {
  return Expect(at::equal(a, b), absl::StrCat(what, " changes the values"));
}

template <typename T>
absl::Status CheckSums(Communicator& group) {
  const at::Tensor values = Numbers<T>(1000);
  const at::Tensor copy = values.clone();
  EVENSTEP_RETURN_IF_ERROR(group.AllReduceSum(SpanOf<T>(copy)));
  return ExpectSame(copy, values, "all-reduce");
}

template <typename T>
absl::Status CheckReduceScatter(Communicator& group) {
  const at::Tensor values = Numbers<T>(1000);
  const at::Tensor recv = at::zeros_like(values);
  const absl::Span<const T> send = SpanOf<T>(values);
  EVENSTEP_RETURN_IF_ERROR(
      group.ReduceScatterSum(send, {1000}, SpanOf<T>(recv)));
  return ExpectSame(recv, values, "reduce-scatter");
}

absl::Status CheckExchanges(Communicator& group) {
  const at::Tensor send = Numbers<float>(1000);
  const std::vector<int64_t> bytes = {4000};
  at::Tensor recv = at::zeros_like(send);
  EVENSTEP_RETURN_IF_ERROR(group.AllToAllv(send.const_data_ptr(), bytes,
                                           recv.mutable_data_ptr(), bytes));
  EVENSTEP_RETURN_IF_ERROR(ExpectSame(recv, send, "all-to-all"));
  recv.zero_();
  EVENSTEP_RETURN_IF_ERROR(
      group.AllGatherv(send.const_data_ptr(), recv.mutable_data_ptr(), bytes));
  EVENSTEP_RETURN_IF_ERROR(ExpectSame(recv, send, "all-gather"));
  EVENSTEP_RETURN_IF_ERROR(group.Broadcast(recv.mutable_data_ptr(), 4000, 0));
  EVENSTEP_RETURN_IF_ERROR(ExpectSame(recv, send, "broadcast"));
  const at::Tensor least = Numbers<int64_t>(1000);
  EVENSTEP_RETURN_IF_ERROR(group.AllReduceMin(SpanOf<int64_t>(least)));
  return ExpectSame(least, Numbers<int64_t>(1000), "minimum");
}

// Sums of the host's memory take the other back end.
absl::Status CheckHost(Communicator& group) {
  std::vector<double> totals = {1.5, 2};
  EVENSTEP_RETURN_IF_ERROR(group.AllReduceSum(absl::MakeSpan(totals)));
  EVENSTEP_RETURN_IF_ERROR(
      Expect(totals[0] == 1.5 && !IsOnDevice(totals.data()), "a host's sum"));
  return group.Barrier();
}

double FreeMegabytes() {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return static_cast<double>(free) / 1e6;
}

}  // namespace

absl::Status NcclCollectivesOfOneRank() {
  OneRank world;
  for (const char* key : {"first", "second"}) {
    const double free = FreeMegabytes();
    const Clock::time_point begin = Clock::now();
    EVENSTEP_ASSIGN_OR_RETURN(const auto group, world.Create(key));
    absl::PrintF("  %s group: %.3f s, %.0f MB of the device\n", key,
                 SecondsSince(begin), free - FreeMegabytes());
    EVENSTEP_RETURN_IF_ERROR(CheckExchanges(*group));
    EVENSTEP_RETURN_IF_ERROR(CheckSums<float>(*group));
    EVENSTEP_RETURN_IF_ERROR(CheckSums<double>(*group));
    EVENSTEP_RETURN_IF_ERROR(CheckSums<int64_t>(*group));
    EVENSTEP_RETURN_IF_ERROR(CheckReduceScatter<float>(*group));
    EVENSTEP_RETURN_IF_ERROR(CheckReduceScatter<double>(*group));
    EVENSTEP_RETURN_IF_ERROR(CheckHost(*group));
    const at::Tensor small = Numbers<float>(1024);
    const int64_t before_ns = group->collective_ns();
    for (int i = 0; i < 100; ++i) {
      EVENSTEP_RETURN_IF_ERROR(group->AllReduceSum(SpanOf<float>(small)));
    }
    absl::PrintF("  all-reduce of 4 kB, alone: %.1f us\n",
                 static_cast<double>(group->collective_ns() - before_ns) / 1e5);
  }
  return absl::OkStatus();
}

// A collective that waits behind seconds of work is let go at once.
absl::Status NcclAbortAndRebuild() {
  OneRank world;
  EVENSTEP_ASSIGN_OR_RETURN(const auto group, world.Create("generation-1"));
  at::Tensor busy = at::randn({8192, 8192}, at::TensorOptions(Gpu()));
  for (int i = 0; i < 100; ++i) busy = at::matmul(busy, busy).clamp_(-1, 1);
  const at::Tensor values = Numbers<float>(1000);
  const Clock::time_point begin = Clock::now();
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    group->Abort("the check says so");
  });
  const absl::Status status = group->AllReduceSum(SpanOf<float>(values));
  const double returned = SecondsSince(begin);
  aborter.join();
  const double aborted = SecondsSince(begin);
  Synchronize();
  absl::PrintF(
      "  abort after 0.1 s: the collective returned after %.3f s, the"
      " abort after %.3f s, the device was done after %.3f s\n",
      returned, aborted, SecondsSince(begin));
  EVENSTEP_RETURN_IF_ERROR(Expect(absl::IsAborted(status), status.ToString()));
  EVENSTEP_RETURN_IF_ERROR(
      Expect(absl::IsAborted(group->AllReduceSum(SpanOf<float>(values))),
             "an aborted group works"));
  EVENSTEP_ASSIGN_OR_RETURN(const auto next, world.Create("generation-2"));
  return CheckSums<float>(*next);
}

}  // namespace evenstep::trainer
