#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_GROUP_ATTENTION_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_GROUP_ATTENTION_H_

// Attention over a micro-batch that is spread over a group: what the step
// runner hands to a model, whatever the kind of model. It throws after an
// error, forward or backward, since autograd knows nothing else; the error is
// kept here.

#include "absl/status/status.h"
#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

class GroupAttention : public SequenceAttention {
 public:
  // The first error of a collective, or of a micro-batch that does not fit.
  virtual const absl::Status& status() const = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_GROUP_ATTENTION_H_
