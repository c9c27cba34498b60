#include "wire/data_summary_proto.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace evenstep::wire {

v1::DataSummary ToProto(const data::DatasetSummary& summary) {
  v1::DataSummary proto;
  proto.set_num_samples(summary.num_samples);
  proto.set_num_too_long(summary.num_too_long);
  proto.set_num_bad(summary.num_bad);
  proto.set_num_truncated(summary.num_truncated);
  proto.set_longest(summary.longest);
  proto.set_total_tokens(summary.total_tokens);
  proto.set_content_key(summary.content_key);
  proto.set_largest_token(summary.largest_token);
  proto.set_num_hidden_files(summary.left_out.hidden);
  proto.set_num_own_files(summary.left_out.own);
  proto.set_num_tool_files(summary.left_out.tools);
  proto.set_num_links(summary.left_out.links);
  proto.set_num_json_files(summary.left_out.json);
  return proto;
}

v1::DataSummary ToProto(const jobspec::OpenedData& data) {
  v1::DataSummary proto = ToProto(data.training->summary());
  proto.set_content_key(data.content_key);
  for (const std::string& warning : data.warnings) proto.add_warnings(warning);
  if (data.held_out == nullptr) return proto;
  const data::DatasetSummary& held_out = data.held_out->summary();
  proto.set_evaluation_too_long(held_out.num_too_long);
  proto.set_evaluation_bad(held_out.num_bad);
  proto.set_evaluation_truncated(held_out.num_truncated);
  proto.set_evaluation_samples(
      static_cast<int64_t>(data.evaluated.documents.size()));
  proto.set_evaluation_tokens(data.evaluated.num_tokens);
  proto.set_evaluation_untrained(data.evaluated.num_untrained);
  return proto;
}

absl::StatusOr<data::DatasetSummary> FromProto(const v1::DataSummary& proto) {
  for (const int64_t count :
       {proto.num_samples(), proto.num_too_long(), proto.num_bad(),
        proto.num_truncated(), proto.longest(), proto.total_tokens(),
        proto.num_hidden_files(), proto.num_own_files(), proto.num_tool_files(),
        proto.num_links(), proto.num_json_files()}) {
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("data summary with a count of ", count));
    }
  }
  data::DatasetSummary summary;
  summary.num_samples = proto.num_samples();
  summary.num_too_long = proto.num_too_long();
  summary.num_bad = proto.num_bad();
  summary.num_truncated = proto.num_truncated();
  summary.longest = proto.longest();
  summary.total_tokens = proto.total_tokens();
  summary.content_key = proto.content_key();
  summary.largest_token = proto.largest_token();
  summary.left_out.hidden = proto.num_hidden_files();
  summary.left_out.own = proto.num_own_files();
  summary.left_out.tools = proto.num_tool_files();
  summary.left_out.links = proto.num_links();
  summary.left_out.json = proto.num_json_files();
  return summary;
}

}  // namespace evenstep::wire
