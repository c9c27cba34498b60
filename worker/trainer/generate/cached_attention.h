#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_CACHED_ATTENTION_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_CACHED_ATTENTION_H_

// Attention of one document that grows token by token: keys and values of what
// stands already are kept, so that a further token costs one row. The model
// calls it layer by layer, as it calls any attention. The first pass takes
// several tokens, each later pass one; EndPass stands after each. Without
// autograd; one rank; one thread. Errors are thrown, as torch's are.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/trainer/model/model.h"

namespace evenstep::trainer {

class CachedAttention : public SequenceAttention {
 public:
  // Room for `most_tokens`, the first pass's included. Layers of every kind
  // count.
  CachedAttention(int num_layers, int64_t most_tokens);

  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD, AttentionMask mask) override;

  // The next call is of the first layer again. Throws unless every layer called
  // once since the last one: another's keys and values would be taken.
  void EndPass();

 private:
  struct Layer {
    at::Tensor k_SGD;  // the first num_tokens rows hold something
    at::Tensor v_SGD;
    int64_t num_tokens = 0;
  };
  void Keep(const at::Tensor& k_TGD, const at::Tensor& v_TGD, Layer* layer);

  const int64_t most_tokens_;
  std::vector<Layer> layers_;
  size_t next_layer_ = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_CACHED_ATTENTION_H_
