#include "worker/trainer/profile/call_times.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "worker/trainer/comm/wrapped_communicator.h"

namespace evenstep::trainer {
namespace {

class TimedCommunicator : public WrappedCommunicator {
 public:
  TimedCommunicator(std::unique_ptr<Communicator> inner,
                    std::vector<double>* call_ns)
      : WrappedCommunicator(std::move(inner)), call_ns_(call_ns) {}

 protected:
  absl::Status Around(const CollectiveCall& /*call*/,
                      absl::FunctionRef<absl::Status()> run) override {
    const int64_t before_ns = inner().collective_ns();
    absl::Status status = run();
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
