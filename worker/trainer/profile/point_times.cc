#include "worker/trainer/profile/point_times.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {
namespace {

constexpr int64_t kPointBudgetNs = 1'500'000'000;
constexpr int64_t kSharedRepeats = 8;

// The smaller of each pair; of no times yet, the others.
absl::Status TakeLeast(absl::Span<const double> call_ns,
                       std::vector<double>* least) {
  if (least->empty()) least->assign(call_ns.begin(), call_ns.end());
  if (least->size() != call_ns.size()) {
    return absl::InternalError(absl::StrCat("a micro-batch had ", least->size(),
                                            " collectives, and once again ",
                                            call_ns.size()));
  }
  for (size_t call = 0; call < call_ns.size(); ++call) {
    (*least)[call] = std::min((*least)[call], call_ns[call]);
  }
  return absl::OkStatus();
}

// A quarter of the values are smaller. Zero for none.
double LowerQuartile(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + (values.size() - 1) / 4;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

int64_t RepeatsOf(int64_t compute_ns, int degree, int most) {
  return std::clamp<int64_t>(kPointBudgetNs / (compute_ns + 1), 1,
                             degree > 1 ? most * kSharedRepeats : most);
}

bool IsTimedIn(int64_t round, int64_t rounds, int64_t repeats) {
  return (round + 1) * repeats / rounds > round * repeats / rounds;
}

absl::Status AddRepeat(double compute_ns, absl::Span<const double> call_ns,
                       RankTimes* times) {
  times->compute_ns.push_back(compute_ns);
  return TakeLeast(call_ns, &times->call_ns);
}

absl::StatusOr<PointTime> CombineTimes(const std::vector<RankTimes>& ranks) {
  PointTime time;
  std::vector<double> least;
  for (const RankTimes& rank : ranks) {
    EVENSTEP_RETURN_IF_ERROR(TakeLeast(rank.call_ns, &least));
    time.compute_ns = std::max(time.compute_ns, LowerQuartile(rank.compute_ns));
  }
  time.collective_ns = std::accumulate(least.begin(), least.end(), 0.0);
  return time;
}

namespace {

class TimedCommunicator : public CommunicatorDecorator {
 public:
  TimedCommunicator(std::unique_ptr<Communicator> inner,
                    std::vector<double>* call_ns)
      : CommunicatorDecorator(std::move(inner)), call_ns_(call_ns) {}

  absl::Status Run(const Collective& call) override {
    const int64_t before_ns = inner().collective_ns();
    absl::Status status = inner().Run(call);
    call_ns_->push_back(
        static_cast<double>(inner().collective_ns() - before_ns));
    return status;
  }

 private:
  std::vector<double>* const call_ns_;
};

class CallTimesFactory : public CommunicatorFactory {
 public:
  CallTimesFactory(std::unique_ptr<CommunicatorFactory> inner,
                   std::vector<double>* call_ns)
      : inner_(std::move(inner)), call_ns_(call_ns) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(auto made,
                              inner_->Create(key, block, world_rank));
    return std::make_unique<TimedCommunicator>(std::move(made), call_ns_);
  }
  void SetTimeout(absl::Duration timeout) override {
    inner_->SetTimeout(timeout);
  }

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
  std::vector<double>* const call_ns_;
};

}  // namespace

std::unique_ptr<CommunicatorFactory> MakeCallTimesFactory(
    std::unique_ptr<CommunicatorFactory> inner, std::vector<double>* call_ns) {
  return std::make_unique<CallTimesFactory>(std::move(inner), call_ns);
}

}  // namespace evenstep::trainer
