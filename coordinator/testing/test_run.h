#ifndef EVENSTEP_COORDINATOR_TESTING_TEST_RUN_H_
#define EVENSTEP_COORDINATOR_TESTING_TEST_RUN_H_

// An attempt without a supervisor: its nodes only record what they are told.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/attempts/attempt_run.h"
#include "coordinator/testing/fake_ranks.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator::testing {

class FakeLinks : public AttemptLinks {
 public:
  using What = v1::CoordinatorMessage::WhatCase;

  bool IsOwn(const NodeRun&) const override { return true; }
  bool IsConnected(const NodeRun& node) const override {
    return !disconnected.contains(node.name());
  }
  absl::Status Send(const NodeRun& node,
                    const v1::CoordinatorMessage& message) override {
    sent.emplace_back(node.name(), message.what_case());
    return refusal;
  }
  // By node and kind, since the last call.
  std::vector<std::pair<std::string, What>> TakeSent() {
    return std::exchange(sent, {});
  }

  std::set<std::string> disconnected;
  std::vector<std::pair<std::string, What>> sent;
  absl::Status refusal;
};

// Every node has one rank.
struct TestRun {
  TestRun(const v1::AttemptId& id, const std::vector<std::string>& nodes,
          int64_t steps)
      : run(MakeJob(id, nodes, steps),
            *wire::FromProto(MakeJob(id, nodes, steps).spec()), links, times,
            absl::ZeroDuration()) {}

  static v1::Job MakeJob(const v1::AttemptId& id,
                         const std::vector<std::string>& nodes, int64_t steps) {
    v1::Job job;
    job.set_job_id(id.job_id());
    job.set_attempt(id.attempt());
    job.set_generation(id.generation());
    const int ranks = static_cast<int>(nodes.size());
    *job.mutable_spec() = SmallJob(id.job_id(), ranks, steps).spec();
    for (const std::string& node : nodes) {
      v1::Placement* const placement = job.add_placements();
      placement->set_node(node);
      placement->set_first_rank(job.placements_size() - 1);
      placement->set_num_ranks(1);
    }
    return job;
  }

  FakeLinks links;
  AttemptTimes times;
  AttemptRun run;
};

}  // namespace evenstep::coordinator::testing

#endif  // EVENSTEP_COORDINATOR_TESTING_TEST_RUN_H_
