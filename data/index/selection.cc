#include "data/index/selection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/sample_rules.h"

namespace evenstep::data {
namespace {

// Ranks of a job compare it: the data, and the rules it is under.
uint64_t ContentKey(const LengthIndex& index, const DatasetOptions& options) {
  Fnv1a64 hash;
  hash.AddInt(static_cast<int64_t>(index.header().content_key));
  hash.AddInt(options.max_length);
  hash.AddInt(static_cast<int64_t>(options.on_too_long));
  hash.AddInt(static_cast<int64_t>(options.on_bad_sample));
  hash.AddInt(options.vocab);
  hash.AddInt(options.patch);
  hash.AddInt(options.channels);
  return hash.value();
}

UnreadFiles FilesWithoutDocuments(const LengthIndex& index) {
  std::vector<bool> is_read(index.header().num_files);
  for (int64_t row = 0; row < index.num_documents(); ++row) {
    is_read[index.document(row).file] = true;
  }
  UnreadFiles unread;
  int64_t most = -1;
  for (int64_t i = 0; i < index.header().num_files; ++i) {
    const int64_t bytes = index.file(i).bytes;
    if (is_read[i]) {
      unread.bytes_read += bytes;
      continue;
    }
    ++unread.num_files;
    unread.bytes += bytes;
    if (bytes <= most) continue;
    most = bytes;
    unread.largest = std::string(index.file_name(i));
  }
  return unread;
}

}  // namespace

absl::StatusOr<Selection> Selection::Make(LengthIndex index,
                                          const DatasetOptions& options,
                                          const Source& source,
                                          const LeftOut& listed) {
  Selection selection(std::move(index), options.max_length);
  const LengthIndex& documents = selection.index_;
  if (source.check) EVENSTEP_RETURN_IF_ERROR(source.check(documents));
  SampleRules rules(options);
  DatasetSummary& summary = selection.summary_;
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < documents.num_documents(); ++row) {
    const JudgedDocument judged = source.judge(documents, row);
    int64_t length = judged.num_tokens;
    if (!judged.problem.empty()) {
      rules.AddBad(source.name(documents, row), judged.problem);
      continue;
    }
    if (length > options.max_length) {
      rules.AddTooLong(length, documents.document(row).number == 0,
                       [&] { return source.name(documents, row); });
      const bool is_cut = options.on_too_long == OnTooLong::kTruncate;
      summary.tokens_left_out +=
          length - (is_cut ? judged.truncated_tokens : 0);
      if (!is_cut) continue;
      length = judged.truncated_tokens;
    }
    rows.push_back(row);
    summary.longest = std::max(summary.longest, length);
    summary.total_tokens += length;
    summary.largest_token = std::max<int64_t>(
        summary.largest_token, documents.document(row).largest_token);
  }
  rules.AddBadForAll(
      documents.header().num_bad,
      absl::StrSplit(documents.notes(), '\n', absl::SkipEmpty()));
  summary.num_samples = static_cast<int64_t>(rows.size());
  summary.num_bad = rules.num_bad();
  summary.num_too_long = rules.num_too_long();
  summary.num_long_files = rules.num_long_files();
  summary.left_out = listed;
  summary.left_out.json = documents.header().num_json;
  summary.num_truncated = rules.num_truncated();
  if (source.all_files_hold_documents) {
    summary.unread = FilesWithoutDocuments(documents);
  }
  summary.content_key = ContentKey(documents, options);
  EVENSTEP_RETURN_IF_ERROR(rules.Check(summary.num_samples, summary.left_out));
  if (summary.num_samples < documents.num_documents()) {
    selection.rows_ = std::move(rows);
  }
  selection.notes_ = rules.notes();
  return selection;
}

std::function<JudgedDocument(const LengthIndex&, int64_t row)> JudgeTokens(
    const DatasetOptions& options, int64_t vocab) {
  return [max_length = options.max_length, vocab](const LengthIndex& index,
                                                  int64_t row) {
    const IndexedDocument& document = index.document(row);
    JudgedDocument judged;
    judged.num_tokens = document.num_tokens;
    judged.truncated_tokens = max_length;
    if (vocab > 0 && document.largest_token >= vocab) {
      judged.problem =
          absl::StrCat("token ", document.largest_token_at, " has id ",
                       document.largest_token, ", model.vocab is ", vocab);
    }
    return judged;
  };
}

}  // namespace evenstep::data
