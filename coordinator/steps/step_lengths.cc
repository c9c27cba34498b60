#include "coordinator/steps/step_lengths.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "wire/step_plan.h"

namespace evenstep::coordinator {
namespace {

std::string Where(const v1::LengthReport& report) {
  return absl::StrCat("length report of rank ", report.rank(), " for step ",
                      report.step());
}

absl::Status CheckShareSize(const StepShape& shape,
                            const v1::LengthReport& report) {
  if (report.rank() < 0 || report.rank() >= shape.world) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": the job has ", shape.world, " ranks"));
  }
  // Positions rank, rank + world, ... below batch_samples.
  const int64_t expected =
      (shape.batch_samples - report.rank() + shape.world - 1) / shape.world;
  if (report.sample_ids_size() != expected ||
      report.lengths_size() != expected ||
      report.trained_tokens_size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(report), ": ", report.sample_ids_size(), " ids, ",
        report.lengths_size(), " lengths and ", report.trained_tokens_size(),
        " trained counts; its share of ", shape.batch_samples, " samples is ",
        expected));
  }
  if (report.shapes_size() != (shape.is_video ? expected : 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(report), ": ", report.shapes_size(), " shapes for ", expected,
        " samples of a ", shape.is_video ? "video" : "text", " model"));
  }
  return absl::OkStatus();
}

absl::Status CheckSample(const StepShape& shape, int64_t step,
                         const v1::LengthReport& report, int index) {
  const int64_t expected_id =
      step * shape.batch_samples + report.rank() + int64_t{index} * shape.world;
  const int64_t id = report.sample_ids(index);
  const int64_t length = report.lengths(index);
  const int64_t trained = report.trained_tokens(index);
  if (id != expected_id) {
    return absl::InvalidArgumentError(absl::StrCat(Where(report), ": sample ",
                                                   id, " stands where sample ",
                                                   expected_id, " belongs"));
  }
  if (length < 1 || length > shape.max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": sample ", id, " has length ", length,
                     "; lengths are 1 to max_length = ", shape.max_length));
  }
  if (trained < 0 || trained > length) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(report), ": sample ", id, " has ", trained,
                     " trained tokens of ", length));
  }
  if (!shape.is_video) return absl::OkStatus();
  const auto clip = wire::FromProto(report.shapes(index), length);
  if (clip.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Where(report), ": sample ", id, ": ", clip.status().message()));
}

}  // namespace

absl::Status CheckLengthShare(const StepShape& shape, int64_t step,
                              const v1::LengthReport& report) {
  EVENSTEP_RETURN_IF_ERROR(CheckShareSize(shape, report));
  for (int i = 0; i < report.sample_ids_size(); ++i) {
    EVENSTEP_RETURN_IF_ERROR(CheckSample(shape, step, report, i));
  }
  return absl::OkStatus();
}

StepLengths::StepLengths(const StepShape& shape, int64_t step)
    : shape_(shape), step_(step) {}

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

std::vector<planner::Sample> StepLengths::ShareOf(
    const v1::LengthReport& report) const {
  std::vector<planner::Sample> share;
  share.reserve(report.sample_ids_size());
  for (int i = 0; i < report.sample_ids_size(); ++i) {
    share.push_back(SampleAt(report, i));
  }
  return share;
}

absl::Status StepLengths::Check(const v1::LengthReport& report) const {
  EVENSTEP_RETURN_IF_ERROR(CheckLengthShare(shape_, step_, report));
  const auto kept = shares_.find(report.rank());
  if (kept == shares_.end() || kept->second == ShareOf(report)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Where(report), ": differs from what the rank reported before"));
}

absl::Status StepLengths::Add(const v1::LengthReport& report) {
  EVENSTEP_RETURN_IF_ERROR(Check(report));
  shares_.try_emplace(report.rank(), ShareOf(report));
  return absl::OkStatus();
}

std::vector<planner::Sample> StepLengths::samples() const {
  std::vector<planner::Sample> samples(shape_.batch_samples);
  for (const auto& [rank, share] : shares_) {
    for (size_t i = 0; i < share.size(); ++i) {
      samples[Position(rank, static_cast<int>(i))] = share[i];
    }
  }
  return samples;
}

std::vector<int> StepLengths::MissingRanks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < shape_.world; ++rank) {
    if (!shares_.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

}  // namespace evenstep::coordinator
