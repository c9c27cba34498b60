#ifndef EVENSTEP_JOBSPEC_MODEL_MEMORY_H_
#define EVENSTEP_JOBSPEC_MODEL_MEMORY_H_

// What a job's model holds for each token, whatever its kind: the planner's
// memory model of a job, and the prediction beside what a profile measures.
// Pure.

#include "jobspec/decoder_memory.h"
#include "jobspec/job_spec.h"
#include "jobspec/video_memory.h"
#include "planner/request.h"

namespace evenstep::jobspec {

// Bytes by token of everything but tokens_per_rank and activation_bytes. None
// of a model by a name: its layers are not known.
inline planner::MemoryModel ModelMemory(const ModelSpec& model,
                                        Precision precision) {
  if (!model.name.empty()) return {};
  return model.is_video() ? VideoMemory(model, precision)
                          : DecoderMemory(model, precision);
}

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_MODEL_MEMORY_H_
