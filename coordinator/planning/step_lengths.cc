#include "coordinator/planning/step_lengths.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "wire/step_plan.h"

namespace evenstep::coordinator {
namespace {

std::string Where(const v1::LengthReport& report) {
  return absl::StrCat("length report of rank ", report.rank(), " for step ",
                      report.step());
}

}  // namespace

StepLengths::StepLengths(const StepShape& shape, int64_t step)
    : shape_(shape),
      step_(step),
      samples_(shape.batch_samples),
      reported_(shape.world, false) {}

absl::Status StepLengths::CheckShare(const v1::LengthReport& report) const {
  if (report.rank() < 0 || report.rank() >= shape_.world) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": the job has ", shape_.world, " ranks"));
  }
  // Positions rank, rank + world, ... below batch_samples.
  const int64_t expected =
      (shape_.batch_samples - report.rank() + shape_.world - 1) / shape_.world;
  if (report.sample_ids_size() != expected ||
      report.lengths_size() != expected ||
      report.trained_tokens_size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(report), ": ", report.sample_ids_size(), " ids, ",
        report.lengths_size(), " lengths and ", report.trained_tokens_size(),
        " trained counts; its share of ", shape_.batch_samples, " samples is ",
        expected));
  }
  if (report.shapes_size() != (shape_.is_video ? expected : 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(report), ": ", report.shapes_size(), " shapes for ", expected,
        " samples of a ", shape_.is_video ? "video" : "text", " model"));
  }
  return absl::OkStatus();
}

absl::Status StepLengths::CheckSample(const v1::LengthReport& report,
                                      int index) const {
  const int64_t expected_id =
      step_ * shape_.batch_samples + Position(report.rank(), index);
  const int64_t id = report.sample_ids(index);
  const int64_t length = report.lengths(index);
  const int64_t trained = report.trained_tokens(index);
  if (id != expected_id) {
    return absl::InvalidArgumentError(absl::StrCat(Where(report), ": sample ",
                                                   id, " stands where sample ",
                                                   expected_id, " belongs"));
  }
  if (length < 1 || length > shape_.max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": sample ", id, " has length ", length,
                     "; lengths are 1 to max_length = ", shape_.max_length));
  }
  if (trained < 0 || trained > length) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": sample ", id, " has ", trained,
                     " trained tokens of ", length));
  }
  if (!shape_.is_video) return absl::OkStatus();
  const auto shape = wire::FromProto(report.shapes(index), length);
  if (shape.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Where(report), ": sample ", id, ": ", shape.status().message()));
}

planner::Sample StepLengths::SampleAt(const v1::LengthReport& report,
                                      int index) const {
  planner::Sample sample;
  sample.id = report.sample_ids(index);
  sample.length = report.lengths(index);
  sample.trained_tokens = report.trained_tokens(index);
  if (!shape_.is_video) return sample;
  sample.frames = report.shapes(index).frames();
  sample.height = report.shapes(index).height();
  sample.width = report.shapes(index).width();
  return sample;
}

bool StepLengths::SameAsKept(const v1::LengthReport& report) const {
  for (int i = 0; i < report.sample_ids_size(); ++i) {
    if (samples_[Position(report.rank(), i)] != SampleAt(report, i)) {
      return false;
    }
  }
  return true;
}

absl::Status StepLengths::Add(const v1::LengthReport& report) {
  EVENSTEP_RETURN_IF_ERROR(CheckShare(report));
  for (int i = 0; i < report.sample_ids_size(); ++i) {
    EVENSTEP_RETURN_IF_ERROR(CheckSample(report, i));
  }
  if (reported_[report.rank()]) {
    if (SameAsKept(report)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        Where(report), ": differs from what the rank reported before"));
  }
  for (int i = 0; i < report.sample_ids_size(); ++i) {
    samples_[Position(report.rank(), i)] = SampleAt(report, i);
  }
  reported_[report.rank()] = true;
  ++num_reported_;
  return absl::OkStatus();
}

std::vector<int> StepLengths::MissingRanks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < shape_.world; ++rank) {
    if (!reported_[rank]) missing.push_back(rank);
  }
  return missing;
}

}  // namespace evenstep::coordinator
