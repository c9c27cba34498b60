#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_SEQUENCE_LAYOUT_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_SEQUENCE_LAYOUT_H_

// Where the tokens of a micro-batch stand in its group. Degree d = u * c: c
// parts whose keys and values are gathered, each shared by u consecutive ranks
// that exchange heads; so rank p of the group is rank p mod u of part p / u.
// c = 1 is Ulysses alone, u = 1 is KV-gather alone. Pure functions.
//
// c = 1: documents lie end to end, padded at the tail to a multiple of d.
// c > 1, zigzag: each document is padded to a multiple of 2d and cut into 2c
// chunks; part a has chunks a and 2c - 1 - a, so that causal attention costs
// every part the same. Each part is then cut into u equal runs, one a rank.
// The planner counts padding in the same way (planner/costs/sample_size.h).

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace evenstep::trainer {

struct SequenceLayout {
  int ulysses = 1;  // u
  int gather = 1;   // c

  int degree() const { return ulysses * gather; }
};

// INVALID_ARGUMENT with the numbers, unless `ulysses_degree` divides `degree`.
absl::StatusOr<SequenceLayout> MakeLayout(int degree, int ulysses_degree);

// Tokens of a document with padding of its own: 698 over 4 parts are 704.
int64_t PaddedDocumentTokens(int64_t length, const SequenceLayout& layout);

// Tokens of a micro-batch with all padding: a multiple of the degree.
int64_t PaddedTokens(absl::Span<const int64_t> lengths,
                     const SequenceLayout& layout);

// Positions [begin, end) of a document; those from its length on are padding.
struct TokenRun {
  int document = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// What a part holds, in order, without padding at the micro-batch's tail.
std::vector<TokenRun> RunsOfPart(absl::Span<const int64_t> lengths,
                                 const SequenceLayout& layout, int part);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_SEQUENCE_LAYOUT_H_
