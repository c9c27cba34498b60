#ifndef EVENSTEP_CLIENT_CLI_LOCAL_UNFINISHED_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_UNFINISHED_H_

// Weights of local runs that did not end: agents and trainers outlive a command
// that is killed for long enough to write them, but nobody brings them to the
// results. `local` and `generate` say where they are. Reads folders and the
// headers of files; stateless.

#include <cstdint>
#include <string>
#include <vector>

#include "evenstep/job.h"

namespace evenstep::cli {

// Where the agents of a local run write, in the run's folder: each job has a
// folder of its own in it, which is removed once its results were brought.
inline constexpr char kUnfinishedName[] = "unfinished";
// Where a run moves what an earlier one left, with a number.
inline constexpr char kPreviousPrefix[] = "previous-";

// Fills in the weights that trainers left in `folder`, if there are any, of a
// job whose end was not heard of: those of the most steps, rank 0's before
// those of another.
void FindWeights(const std::string& folder, client::Job* job);

struct UnfinishedWeights {
  std::string path;
  int64_t steps = 0;
};

// One file for each job that left weights in FOLDER/unfinished, in the order of
// their paths; and, of a job's own folder, what an attempt left that had done
// more steps than the one of model.safetensors.
std::vector<UnfinishedWeights> FindUnfinished(const std::string& folder);

// A sentence with the steps and the command that uses them, a line for each
// file; empty where there are none.
std::string DescribeUnfinished(const std::vector<UnfinishedWeights>& found);

// What a user may want to know of a folder that has no weights: unfinished
// ones, those of earlier runs, and why its last run left none. Lines; empty
// where there is nothing to say.
std::string DescribeNoWeights(const std::string& folder);

// How to train further from these weights.
std::string DescribeContinuation(const std::string& weights);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_UNFINISHED_H_
