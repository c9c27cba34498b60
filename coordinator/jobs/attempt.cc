#include "coordinator/jobs/attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "jobspec/job_warnings.h"

namespace evenstep::coordinator {
namespace {

int CountRanks(const std::vector<NodeShare>& shares) {
  int count = 0;
  for (const NodeShare& share : shares) count += share.num_ranks;
  return count;
}

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

}  // namespace

Attempt::Attempt(v1::AttemptId id, std::vector<NodeShare> shares)
    : id_(std::move(id)),
      shares_(std::move(shares)),
      ranks_(CountRanks(shares_)) {}

bool Attempt::HasNode(const std::string& node) const {
  return std::any_of(
      shares_.begin(), shares_.end(),
      [&](const NodeShare& share) { return share.node == node; });
}

const std::string& Attempt::NodeOf(int rank) const {
  static const std::string* const nowhere = new std::string;
  if (!HasRank(rank)) return *nowhere;
  const auto share = std::find_if(
      shares_.begin(), shares_.end(),
      [&](const NodeShare& s) { return rank < s.first_rank + s.num_ranks; });
  return share->node;
}

void Attempt::MarkStarted(int rank) {
  if (HasRank(rank)) ranks_[rank].started = true;
}

bool Attempt::all_started() const { return RanksNotStarted().empty(); }

std::vector<int> Attempt::RanksNotStarted() const {
  std::vector<int> missing;
  for (int rank = 0; rank < world(); ++rank) {
    if (!ranks_[rank].started) missing.push_back(rank);
  }
  return missing;
}

absl::Status Attempt::AddData(int rank, const v1::DataSummary& data) {
  using google::protobuf::util::MessageDifferencer;
  if (!HasRank(rank)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data of rank ", rank, ": the job has ", world(), " ranks"));
  }
  const auto& before = ranks_[rank].data;
  if (before && !MessageDifferencer::Equals(*before, data)) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " (", NodeOf(rank), ") sees ",
                     Summary(data), "; it saw ", Summary(*before), " before"));
  }
  if (data.warnings_size() > jobspec::kMaxWarnings) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " (", NodeOf(rank), ") reports ", data.warnings_size(),
        " warnings; at most ", jobspec::kMaxWarnings));
  }
  ranks_[rank].data = data;
  for (int other = 0; other < world(); ++other) {
    const auto& seen = ranks_[other].data;
    if (!seen || MessageDifferencer::Equals(Compared(*seen), Compared(data))) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks see different data: rank ", other, " (", NodeOf(other), ") ",
        Summary(*seen), "; rank ", rank, " (", NodeOf(rank), ") ",
        Summary(data), "; give every node the same files"));
  }
  return absl::OkStatus();
}

std::optional<v1::DataSummary> Attempt::agreed_data() const {
  for (const Rank& rank : ranks_) {
    if (!rank.data) return std::nullopt;
  }
  return ranks_.front().data;
}

void Attempt::AddAbandonRequest(const v1::AbandonRequest& request,
                                absl::Duration now) {
  const bool is_rank = HasRank(request.rank());
  if (is_rank) ranks_[request.rank()].gave_up = true;
  const std::string who = is_rank ? absl::StrCat("rank ", request.rank(), " (",
                                                 NodeOf(request.rank()), "): ")
                                  : std::string();
  AddCause({request.reason().empty() ? "INTERNAL" : request.reason(),
            who + request.message(),
            IsConsequence(request.reason()) ? CauseStrength::kConsequence
                                            : CauseStrength::kProper},
           now);
}

bool Attempt::AddExit(const v1::TrainerExited& exited, bool complete,
                      absl::Duration now) {
  if (!HasRank(exited.rank())) return false;
  Rank& rank = ranks_[exited.rank()];
  if (std::exchange(rank.exited, true)) return false;
  if (exited.clean() && complete) {
    rank.ended_clean = true;
    return true;
  }
  // It has said why before, or its end is the teardown after that.
  if (rank.gave_up) return true;
  const bool killed = exited.signal() != 0;
  std::string how = exited.message();
  if (how.empty()) {
    how = killed ? absl::StrCat("ended by signal ", exited.signal())
                 : absl::StrCat("exited with status ", exited.exit_status(),
                                " after ", exited.steps_done(), " steps");
  }
  AddCause({killed ? "TRAINER_KILLED" : "TRAINER_FAILED",
            absl::StrCat("rank ", exited.rank(), " (", NodeOf(exited.rank()),
                         ") ", how),
            killed ? CauseStrength::kProper : CauseStrength::kLikely},
           now);
  return true;
}

void Attempt::AddCause(Cause cause, absl::Duration now) {
  if (!cause_) cause_since_ = now;
  if (!cause_ || cause.strength > cause_->strength) cause_ = std::move(cause);
}

bool Attempt::all_ended_clean() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.ended_clean; });
}

int Attempt::num_ended_clean() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(),
                    [](const Rank& rank) { return rank.ended_clean; }));
}

std::vector<int> Attempt::RanksNotEnded() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world(); ++rank) {
    if (!ranks_[rank].ended_clean) ranks.push_back(rank);
  }
  return ranks;
}

bool Attempt::ended_clean(const std::string& node) const {
  for (int rank = 0; rank < world(); ++rank) {
    if (NodeOf(rank) == node && !ranks_[rank].ended_clean) return false;
  }
  return true;
}

bool Attempt::CauseIsDue(absl::Duration now, absl::Duration grace) const {
  if (!cause_) return false;
  return cause_->strength == CauseStrength::kProper ||
         now >= cause_since_ + grace;
}

bool Attempt::all_gone() const { return NodesNotGone().empty(); }

std::vector<std::string> Attempt::NodesNotGone() const {
  std::vector<std::string> nodes;
  for (const NodeShare& share : shares_) {
    if (!IsGone(share.node)) nodes.push_back(share.node);
  }
  return nodes;
}

}  // namespace evenstep::coordinator
