#include "wire/data_summary_proto.h"

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
  return proto;
}

absl::StatusOr<data::DatasetSummary> FromProto(const v1::DataSummary& proto) {
  for (const int64_t count :
       {proto.num_samples(), proto.num_too_long(), proto.num_bad(),
        proto.num_truncated(), proto.longest(), proto.total_tokens()}) {
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
  return summary;
}

}  // namespace evenstep::wire
