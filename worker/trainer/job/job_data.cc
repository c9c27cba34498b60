#include "worker/trainer/job/job_data.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "data/sample_rules.h"
#include "jobspec/open_data.h"
#include "wire/data_summary_proto.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {
namespace {

// All ranks have the same, so one names them.
void LogBadSamples(const jobspec::OpenedData& opened) {
  data::LogBadSamples(*opened.training);
  if (opened.held_out != nullptr) data::LogBadSamples(*opened.held_out);
}

}  // namespace

absl::StatusOr<JobData> OpenJobData(
    const TrainerSetup& setup, const data::IndexProgressFunction& progress) {
  absl::StatusOr<jobspec::OpenedData> opened =
      jobspec::OpenData(setup.spec, progress);
  if (!opened.ok()) {
    return WithReason(opened.status(), FailureReason::kDataError, kNoStep);
  }
  for (const std::string& warning : opened->warnings) {
    Log(LogLevel::kWarning, "job_warning", {{"warning", warning}});
  }
  if (setup.rank == 0) LogBadSamples(*opened);
  evenstep::v1::DataSummary summary = wire::ToProto(*opened);
  JobData data{TrainingData(std::move(opened->training), setup), std::nullopt,
               std::move(summary)};
  if (opened->held_out == nullptr) return data;
  data.evaluation.emplace(std::move(opened->held_out),
                          opened->evaluated.documents, setup);
  return data;
}

}  // namespace evenstep::trainer
