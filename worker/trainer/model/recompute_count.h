#ifndef EVENSTEP_WORKER_TRAINER_MODEL_RECOMPUTE_COUNT_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_RECOMPUTE_COUNT_H_

// How the step runner knows that a model recomputes what it was asked to.

#include <cstdint>

namespace evenstep::trainer {

// Calls of RunRecomputed by this thread that made a graph, since it started.
int64_t NumRecomputedLayers();

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_RECOMPUTE_COUNT_H_
