#ifndef EVENSTEP_CLIENT_PLAN_STUDY_STUDY_H_
#define EVENSTEP_CLIENT_PLAN_STUDY_STUDY_H_

// The 32-H200 study: the set-up in which Data-Centric Parallel (DCP) was
// published, on simulated hardware. The paper reports that on 32 H200s
// dcp-inter is 1.68 to 2.70 times and dcp-intra up to 2.88 times as fast as
// bucket parallel, with models of 1.2B and 5B, of text (1D) and video (2D), on
// short, balanced and long data. Run by `make bench-study`, which writes
// docs/study-32-h200.md's tables. Stateless.
//
// A bucket is a clip size of the law. Of video, clips of one frame are left
// out: they cannot be shared by frames, so no fixed degree above 1 could run
// them.
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
  // Where the batch floats: steps that one seed runs, so that its mix of
  // samples evens out, and samples to draw from, filled up after every step.
  int elastic_steps = 10;
  int pool_samples = 4096;
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
  std::vector<Cell> cells;  // as in StudyTable::policies
  // Predicted step time of dcp-intra over that of even's own plan, mean and
  // least over the seeds.
  Interval even_over_intra;
  double worst_even_over_intra = 0;
  // Share of the steps in which the plan that dcp-intra drew is faster than
  // even's own, and is what even runs.
  Interval drawn_kept;
  Interval even_over_bound;  // predicted
  std::string error;         // why there is none
};

struct StudyTable {
  std::string title;
  std::string baseline;
  std::vector<std::string> policies;
  std::vector<StudyRow> rows;
};

// As published: every policy draws its own batch, which floats (elastic.h); the
// bucket baseline does not accumulate; all but dcp-intra recompute everything.
// Throughput is work over time: the mix of samples differs from row to row, so
// a sample counts as its rank-time at its cheapest degree. `even` plans what
// dcp-intra has drawn, with the drawn plan among its candidates.
StudyTable RunAsPublished(const StudyConstants& constants,
                          const std::function<void(const std::string&)>& say);

// Equal samples per step, every row with the recompute that suits it, and a
// tuned baseline.
StudyTable RunEqualSamples(const StudyConstants& constants,
                           const std::function<void(const std::string&)>& say);

std::string ToMarkdown(const StudyTable& table);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_STUDY_STUDY_H_
