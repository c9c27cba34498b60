#include "worker/trainer/comm/emulated_link.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/parse_value.h"
#include "base/status_macros.h"

namespace evenstep::trainer {
namespace {

absl::Status SetPart(absl::string_view key, absl::string_view value,
                     EmulatedLink* link) {
  if (key == "ranks_per_node") return ParseValue(value, &link->ranks_per_node);
  for (const auto& [name, level] :
       {std::pair<absl::string_view, LinkLevel*>{"inside", &link->inside},
        {"across", &link->across}}) {
    if (key == absl::StrCat(name, "_latency")) {
      return ParseValue(value, &level->latency);
    }
    if (key == absl::StrCat(name, "_gigabytes_per_second")) {
      return ParseValue(value, &level->gigabytes_per_second);
    }
  }
  return absl::InvalidArgumentError(
      "not ranks_per_node, inside_latency, inside_gigabytes_per_second, "
      "across_latency or across_gigabytes_per_second");
}

absl::Status CheckLink(const EmulatedLink& link) {
  if (link.ranks_per_node >= 1 && link.inside.gigabytes_per_second >= 0 &&
      link.across.gigabytes_per_second >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kEmulatedLinkVariable, ": ranks_per_node is ", link.ranks_per_node,
      ", which must be 1 or more, and bandwidths ",
      link.inside.gigabytes_per_second, " and ",
      link.across.gigabytes_per_second, " must not be negative"));
}

// What one rank and one peer exchange in a call.
struct Flow {
  double sent = 0;
  double received = 0;
  bool takes_part = true;
};

Flow FlowWith(int peer, const Collective& call, const EmulatedPlace& place) {
  const auto bytes = static_cast<double>(call.count * ElementBytes(call.type));
  const auto counted = [&](absl::Span<const int64_t> counts, int p) {
    return static_cast<double>(counts[p] * ElementBytes(call.type));
  };
  switch (call.kind) {
    case CollectiveKind::kAllToAll:
      return {counted(call.send_counts, peer), counted(call.recv_counts, peer)};
    case CollectiveKind::kAllGather:
      return {counted(call.recv_counts, place.rank),
              counted(call.recv_counts, peer)};
    case CollectiveKind::kReduceScatter:
      return {counted(call.send_counts, peer),
              counted(call.send_counts, place.rank)};
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllReduceShares:
      return {2 * bytes / place.size, 2 * bytes / place.size};
    case CollectiveKind::kBroadcast:
      if (place.rank == call.peer) return {bytes, 0};
      return {0, bytes, peer == call.peer};
    case CollectiveKind::kSend:
      return {bytes, 0, peer == call.peer};
    case CollectiveKind::kReceive:
      return {0, bytes, peer == call.peer};
    case CollectiveKind::kBarrier:
      return {};
  }
  return {};
}

absl::Duration LevelTime(const LinkLevel& level, const Flow& flow, int rounds) {
  absl::Duration time = rounds * level.latency;
  if (level.gigabytes_per_second > 0) {
    time += absl::Seconds(std::max(flow.sent, flow.received) /
                          (level.gigabytes_per_second * 1e9));
  }
  return time;
}

class EmulatedLinkCommunicator : public CommunicatorDecorator {
 public:
  EmulatedLinkCommunicator(std::unique_ptr<Communicator> inner,
                           const EmulatedLink& link, int first_rank,
                           std::function<void(absl::Duration)> sleep)
      : CommunicatorDecorator(std::move(inner)),
        link_(link),
        place_{first_rank, rank(), size()},
        sleep_(std::move(sleep)) {}

  int64_t collective_ns() const override {
    return CommunicatorDecorator::collective_ns() + waited_ns_;
  }

  absl::Status Run(const Collective& call) override {
    EVENSTEP_RETURN_IF_ERROR(inner().Run(call));
    const absl::Duration time = EmulatedTime(link_, call, place_);
    if (time > absl::ZeroDuration()) sleep_(time);
    waited_ns_ += absl::ToInt64Nanoseconds(time);
    return absl::OkStatus();
  }

 private:
  const EmulatedLink link_;
  const EmulatedPlace place_;
  const std::function<void(absl::Duration)> sleep_;
  std::atomic<int64_t> waited_ns_ = 0;
};

class EmulatedLinkFactory : public CommunicatorFactory {
 public:
  EmulatedLinkFactory(std::unique_ptr<CommunicatorFactory> inner,
                      const EmulatedLink& link,
                      std::function<void(absl::Duration)> sleep)
      : inner_(std::move(inner)), link_(link), sleep_(std::move(sleep)) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const std::string& key, const RankBlock& block, int world_rank) override {
    EVENSTEP_ASSIGN_OR_RETURN(auto made,
                              inner_->Create(key, block, world_rank));
    return std::make_unique<EmulatedLinkCommunicator>(std::move(made), link_,
                                                      block.first_rank, sleep_);
  }
  void SetTimeout(absl::Duration timeout) override {
    inner_->SetTimeout(timeout);
  }

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
  const EmulatedLink link_;
  const std::function<void(absl::Duration)> sleep_;
};

}  // namespace

absl::StatusOr<EmulatedLink> ParseEmulatedLink(absl::string_view text) {
  EmulatedLink link;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::Status set = SetPart(entry.first, entry.second, &link);
    if (!set.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          kEmulatedLinkVariable, ": '", part, "': ", set.message()));
    }
  }
  EVENSTEP_RETURN_IF_ERROR(CheckLink(link));
  return link;
}

std::string DescribeEmulatedLink(const EmulatedLink& link) {
  return absl::StrCat("EMULATED link: ", link.ranks_per_node,
                      " ranks a node; inside ",
                      absl::FormatDuration(link.inside.latency), ", ",
                      link.inside.gigabytes_per_second, " GB/s; across ",
                      absl::FormatDuration(link.across.latency), ", ",
                      link.across.gigabytes_per_second, " GB/s (0: no cost)");
}

absl::Duration EmulatedTime(const EmulatedLink& link, const Collective& call,
                            const EmulatedPlace& place) {
  const int rounds = call.kind == CollectiveKind::kAllReduce ? 2 : 1;
  const auto node = [&](int rank) {
    return (place.first_rank + rank) / link.ranks_per_node;
  };
  Flow inside{0, 0, false};
  Flow across{0, 0, false};
  for (int peer = 0; peer < place.size; ++peer) {
    if (peer == place.rank) continue;
    const Flow flow = FlowWith(peer, call, place);
    if (!flow.takes_part) continue;
    Flow& total = node(peer) == node(place.rank) ? inside : across;
    total.sent += flow.sent;
    total.received += flow.received;
    total.takes_part = true;
  }
  absl::Duration time = absl::ZeroDuration();
  if (inside.takes_part) time = LevelTime(link.inside, inside, rounds);
  if (!across.takes_part) return time;
  return std::max(time, LevelTime(link.across, across, rounds));
}

std::unique_ptr<CommunicatorFactory> MakeEmulatedLinkFactory(
    std::unique_ptr<CommunicatorFactory> inner, const EmulatedLink& link,
    std::function<void(absl::Duration)> sleep) {
  Log(LogLevel::kWarning, "EMULATED_LINK_ACTIVE",
      {{"link", DescribeEmulatedLink(link)}});
  return std::make_unique<EmulatedLinkFactory>(std::move(inner), link,
                                               std::move(sleep));
}

}  // namespace evenstep::trainer
