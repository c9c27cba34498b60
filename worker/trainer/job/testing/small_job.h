#ifndef EVENSTEP_WORKER_TRAINER_JOB_TESTING_SMALL_JOB_H_
#define EVENSTEP_WORKER_TRAINER_JOB_TESTING_SMALL_JOB_H_

// A job that trains in a blink on documents of uneven lengths, one and two
// bytes among them. For tests only.

#include <fstream>
#include <string>

#include "jobspec/job_spec.h"

namespace evenstep::trainer {

// Writes a few documents into a folder that exists.
inline void WriteDocuments(const std::string& folder) {
  const int lengths[] = {1, 2, 7, 40, 111, 64, 5, 90, 33, 17, 3, 75};
  int document = 0;
  for (int length : lengths) {
    std::ofstream out(folder + "/" + std::to_string(document++) + ".txt");
    for (int i = 0; i < length; ++i) out << "the quick brown fox. "[i % 21];
  }
}

inline jobspec::JobSpec SmallJob(const std::string& folder, int world) {
  jobspec::JobSpec spec;
  spec.name = "small";
  spec.model.layers = 2;
  spec.model.width = 32;
  spec.model.heads = 4;
  spec.model.kv_heads = 4;
  spec.data.source = "text:" + folder;
  spec.data.max_length = 128;
  spec.batch_samples = 5;
  spec.steps = 8;
  spec.seed = 11;
  spec.optimizer.lr = 1e-2;
  spec.ranks = world;
  spec.look_ahead = 2;
  spec.memory.tokens_per_rank = 256;
  planner::TimeModel costs;
  costs.linear_ns_per_token = 1;
  spec.costs = costs;
  return spec;
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_TESTING_SMALL_JOB_H_
