#ifndef EVENSTEP_CLIENT_PLAN_STUDY_STUDY_H_
#define EVENSTEP_CLIENT_PLAN_STUDY_STUDY_H_

// The 32-H200 study: the set-up in which Data-Centric Parallel (DCP) was
// published, on simulated hardware. The paper reports that on 32 H200s
// dcp-inter is 1.68 to 2.70 times and dcp-intra up to 2.88 times as fast as
// bucket parallel, with models of 1.2B and 5B, of text (1D) and video (2D), on
// short, balanced and long data. Run by `make bench-study`, which writes
// docs/study-32-h200.md's tables. Stateless.
//
// The constants below were committed before the study was run for the first
// time, and have not been changed to please it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/request.h"
#include "planner/simulator.h"

namespace evenstep::plan {

struct StudyConstants {
  int num_gpus = 32;
  int gpus_per_node = 8;
  std::vector<std::string> models = {"h200-1.2b-1d", "h200-5b-1d",
                                     "h200-1.2b-2d", "h200-5b-2d"};
  std::vector<std::string> laws = {"short", "balanced", "long"};
  // Four a GPU. The paper's batches float; this is of the order of what its
  // bucket configuration makes of 32 GPUs.
  int samples_per_step = 128;
  int num_seeds = 20;
  // Steps that one seed runs where the batch floats: its mix of samples evens
  // out over them.
  int elastic_steps = 10;
  // A rank's layer takes 1 + 0.02 |z| times its time, a rank 1 + 0.01 |z| (an
  // assumption: kernels and clocks vary by a few percent).
  double layer_noise = 0.02;
  double rank_noise = 0.01;
};

// Mean over seeds, and half of the 95 % interval of the mean.
struct Interval {
  double mean = 0;
  double half_width = 0;
};
// At least one value; of one the half width is 0.
Interval IntervalOf(const std::vector<double>& values);

// One row of a table: a model and a law.
struct StudyRow {
  std::string model;
  std::string law;
  struct Cell {
    std::string policy;
    Interval speedup;  // throughput over the baseline's
    Interval idle;     // share of the ranks' time spent waiting
    Interval recompute;
    Interval degree;  // mean, weighted by rank-time
  };
  std::vector<Cell> cells;   // as in StudyTable::policies
  Interval even_over_intra;  // step time of dcp-intra over even's, predicted
  double worst_even_over_intra = 0;  // least over the seeds
  Interval even_over_bound;          // predicted
  std::string error;                 // why there is none
};

struct StudyTable {
  std::string title;
  std::string baseline;
  std::vector<std::string> policies;
  std::vector<StudyRow> rows;
};

// Equal samples per step, every row with the recompute that suits it, and a
// tuned baseline.
StudyTable RunEqualSamples(const StudyConstants& constants,
                           const std::function<void(const std::string&)>& say);

std::string ToMarkdown(const StudyTable& table);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_STUDY_STUDY_H_
