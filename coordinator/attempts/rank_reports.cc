#include "coordinator/attempts/rank_reports.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "jobspec/job_warnings.h"

namespace evenstep::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

std::string Summary(const v1::DataSummary& data) {
  return absl::StrCat(data.num_samples(), " samples, ", data.total_tokens(),
                      " tokens, key ", absl::Hex(data.content_key()));
}

// What every rank must see the same. Entries that are no data may differ, such
// as the results of an earlier run that one node has, and so may warnings,
// which also look at what is beside given weights.
v1::DataSummary Compared(v1::DataSummary data) {
  data.clear_num_hidden_files();
  data.clear_num_own_files();
  data.clear_num_tool_files();
  data.clear_num_links();
  data.clear_warnings();
  return data;
}

// Only the reports of ranks whose peers failed give these reasons.
bool IsConsequence(const std::string& reason) {
  return reason == "COLLECTIVE_FAILED" || reason == "PEER_FAILED";
}

template <typename Ranks, typename Predicate>
std::vector<int> RanksWhere(const Ranks& ranks, Predicate holds) {
  std::vector<int> found;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (holds(ranks[rank])) found.push_back(static_cast<int>(rank));
  }
  return found;
}

}  // namespace

RankReports::RankReports(const std::vector<NodeShare>& shares) {
  for (const NodeShare& share : shares) {
    for (int i = 0; i < share.num_ranks; ++i) ranks_.push_back({share.node});
  }
}

const std::string& RankReports::NodeOf(int rank) const {
  static const std::string* const nowhere = new std::string;
  return HasRank(rank) ? ranks_[rank].node : *nowhere;
}

std::string RankReports::NameOf(int rank) const {
  return absl::StrCat("rank ", rank, " (", NodeOf(rank), ")");
}

void RankReports::MarkStarted(int rank) {
  if (HasRank(rank)) ranks_[rank].started = true;
}

bool RankReports::all_started() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.started; });
}

std::vector<int> RankReports::RanksNotStarted() const {
  return RanksWhere(ranks_, [](const Rank& rank) { return !rank.started; });
}

absl::Status RankReports::AddData(int rank, const v1::DataSummary& data) {
  if (!HasRank(rank)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data of rank ", rank, ": the job has ", world(), " ranks"));
  }
  const auto& before = ranks_[rank].data;
  if (before && !MessageDifferencer::Equals(*before, data)) {
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(rank), " sees ", Summary(data), "; it saw ",
                     Summary(*before), " before"));
  }
  if (data.warnings_size() > jobspec::kMaxWarnings) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(rank), " reports ", data.warnings_size(),
                     " warnings; at most ", jobspec::kMaxWarnings));
  }
  ranks_[rank].data = data;
  for (int other = 0; other < world(); ++other) {
    const auto& seen = ranks_[other].data;
    if (!seen || MessageDifferencer::Equals(Compared(*seen), Compared(data))) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks see different data: ", NameOf(other), " ", Summary(*seen), "; ",
        NameOf(rank), " ", Summary(data), "; give every node the same files"));
  }
  return absl::OkStatus();
}

std::optional<v1::DataSummary> RankReports::agreed_data() const {
  for (const Rank& rank : ranks_) {
    if (!rank.data) return std::nullopt;
  }
  return ranks_.front().data;
}

FailureCause RankReports::AddAbandonRequest(const v1::AbandonRequest& request) {
  FailureCause cause = {
      request.reason().empty() ? "INTERNAL" : request.reason(),
      request.message(),
      IsConsequence(request.reason()) ? CauseKind::kConsequence
                                      : CauseKind::kRootCause};
  if (!HasRank(request.rank())) return cause;
  ranks_[request.rank()].gave_up = true;
  cause.message = absl::StrCat(NameOf(request.rank()), ": ", cause.message);
  return cause;
}

std::optional<FailureCause> RankReports::AddExit(
    const v1::TrainerExited& exited, bool complete) {
  if (!HasRank(exited.rank())) return std::nullopt;
  Rank& rank = ranks_[exited.rank()];
  if (std::exchange(rank.exited, true)) return std::nullopt;
  rank.ended_clean = exited.clean() && complete;
  // If it gave up, it has said why, and its end is the teardown after that.
  if (rank.ended_clean || rank.gave_up) return std::nullopt;
  const bool killed = exited.signal() != 0;
  std::string how = exited.message();
  if (how.empty()) {
    how = killed ? absl::StrCat("ended by signal ", exited.signal())
                 : absl::StrCat("exited with status ", exited.exit_status(),
                                " after ", exited.steps_done(), " steps");
  }
  return FailureCause{killed ? "TRAINER_KILLED" : "TRAINER_FAILED",
                      absl::StrCat(NameOf(exited.rank()), " ", how),
                      killed ? CauseKind::kRootCause : CauseKind::kSuspected};
}

bool RankReports::all_ended_clean() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.ended_clean; });
}

std::vector<int> RankReports::RanksNotEnded() const {
  return RanksWhere(ranks_, [](const Rank& rank) { return !rank.ended_clean; });
}

bool RankReports::ended_clean(const std::string& node) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.node != node || rank.ended_clean;
  });
}

}  // namespace evenstep::coordinator
