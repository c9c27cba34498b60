#include "jobspec/job_spec.h"

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "planner/planner.h"

namespace evenstep::jobspec {
namespace {

absl::Status NotOneOf(absl::string_view name,
                      const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is unknown", KnownNamesHint(name, known)));
}

}  // namespace

absl::string_view OnTooLongName(OnTooLong value) {
  switch (value) {
    case OnTooLong::kFail:
      return "fail";
    case OnTooLong::kTruncate:
      return "truncate";
    case OnTooLong::kSkip:
      return "skip";
  }
  return "fail";
}

absl::string_view OnBadSampleName(OnBadSample value) {
  return value == OnBadSample::kSkip ? "skip" : "fail";
}

absl::Status ParseOnTooLong(absl::string_view name, OnTooLong* value) {
  for (OnTooLong known :
       {OnTooLong::kFail, OnTooLong::kTruncate, OnTooLong::kSkip}) {
    if (name == OnTooLongName(known)) {
      *value = known;
      return absl::OkStatus();
    }
  }
  return NotOneOf(name, {"fail", "truncate", "skip"});
}

absl::Status ParseOnBadSample(absl::string_view name, OnBadSample* value) {
  for (OnBadSample known : {OnBadSample::kFail, OnBadSample::kSkip}) {
    if (name == OnBadSampleName(known)) {
      *value = known;
      return absl::OkStatus();
    }
  }
  return NotOneOf(name, {"fail", "skip"});
}

data::DatasetOptions ToDatasetOptions(const DataSpec& data) {
  data::DatasetOptions options;
  options.source = data.source;
  options.max_length = data.max_length;
  options.on_too_long = data.on_too_long;
  options.on_bad_sample = data.on_bad_sample;
  return options;
}

planner::ModelShape ToModelShape(const ModelSpec& model) {
  planner::ModelShape shape;
  shape.num_layers = model.layers;
  shape.width = model.width;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads;
  return shape;
}

planner::MemoryModel ToMemoryModel(const MemorySpec& memory) {
  planner::MemoryModel model;
  model.tokens_per_rank = memory.tokens_per_rank;
  return model;
}

absl::Status CheckJobFits(const JobSpec& spec) {
  planner::Cluster cluster;
  cluster.ranks_per_node = {spec.ranks};
  return planner::CheckFits(spec.data.max_length, cluster,
                            ToModelShape(spec.model),
                            ToMemoryModel(spec.memory));
}

}  // namespace evenstep::jobspec
