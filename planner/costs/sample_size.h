#ifndef EVENSTEP_PLANNER_COSTS_SAMPLE_SIZE_H_
#define EVENSTEP_PLANNER_COSTS_SAMPLE_SIZE_H_

// What a sample comes to at a degree: padded tokens and pairs of tokens that
// attend to each other. Both depend on how the group shares its sequences, so
// they are worked out anew for every degree. Used by the cost table, the
// evaluation and the policies. Stateless.
//
//   ulysses    samples are packed as they are; the micro-batch is padded to a
//              multiple of the degree
//   kv_gather, every sample is padded to a multiple of twice the degree
//   both       (zigzag), at degree 1 not at all
//   switch     frames and patches are each padded to a multiple of the degree
//              while they are the sharded ones, so the larger counts; a sample
//              with fewer of either than ranks would be mostly padding and is
//              not run at that degree

#include <array>
#include <cstdint>

#include "planner/costs/degrees.h"
#include "planner/model.h"
#include "planner/request.h"

namespace evenstep::planner {

using int128 = __int128;

// Adds up over the samples of a micro-batch.
struct BatchSize {
  int64_t tokens = 0;  // padded as far as samples are by themselves
  // By kind of layer: pairs of tokens, of all ranks together. Padding attends
  // to nothing, but under switch a rank may have one frame more than others,
  // and all wait for it: it counts.
  std::array<int128, kMaxLayerKinds> pairs{};

  BatchSize& operator+=(const BatchSize& other) {
    tokens += other.tokens;
    for (int k = 0; k < kMaxLayerKinds; ++k) pairs[k] += other.pairs[k];
    return *this;
  }
  BatchSize Times(int64_t count) const {
    BatchSize size{tokens * count, pairs};
    for (int128& pair : size.pairs) pair *= count;
    return size;
  }
};

BatchSize SizeOf(const ModelShape& model, const SequenceSplit& split,
                 const Sample& sample);

// Whether the sample can be shared so at all, memory aside.
bool CanShare(const SequenceSplit& split, const Sample& sample);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_SAMPLE_SIZE_H_
