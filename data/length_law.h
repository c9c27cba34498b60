#ifndef EVENSTEP_DATA_LENGTH_LAW_H_
#define EVENSTEP_DATA_LENGTH_LAW_H_

// Lengths drawn from a named law: what a data set looks like, without one. Used
// by `evenstep plan`, by studies and by synthetic data. Pure; the same law and
// seed give the same lengths. Immutable; safe to share between threads.
//
//   short, balanced, long
//       The 25 clip sizes of the benchmark released with Data-Centric Parallel
//       (VideoSys, examples/training/open_sora/configs/benchmarks): 144p, 240p,
//       360p, 480p and 720p, each of 1, 51, 102, 204 and 408 frames, as tokens
//       of Open-Sora 1.2: 17 frames become 5, patches are of 16 pixels. 144 to
//       432,000 tokens. In `balanced` all sizes are alike; in `short` the k-th
//       shortest weighs 1 / (k + 5)^3 (that benchmark's Zipf law), in `long`
//       the k-th longest. Draws carry frames, height and width.
//   wikipedia
//       Lengths of Wikipedia articles: a table of quantiles, interpolated on
//       the logarithm. 1 to 269,428 tokens, mean about 1,000.
//   lognormal(mean, sigma[, min, max])
//       Also with names: lognormal(median=1500, sigma=1.4, max=115072). A draw
//       outside of min and max is moved to them; the mean is the law's own.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

struct LengthDraw {
  int64_t length = 0;  // tokens, at least 1
  // Of video, in patches; length is their product. frames = 0: text.
  int64_t frames = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const LengthDraw&, const LengthDraw&) = default;
};

struct LengthLaw {
  enum class Kind { kSizes, kQuantiles, kLognormal };
  std::string name;  // as it is parsed
  Kind kind = Kind::kLognormal;
  std::vector<double> weights;  // kSizes: of ClipSizes(), sum 1
  double log_median = 0;        // kLognormal
  double sigma = 0;             // kLognormal
  int64_t min_length = 1;       // kLognormal
  int64_t max_length = 0;       // kLognormal
};

// As they are typed; of lognormal the name only.
std::vector<std::string> LengthLawNames();
// Whether the text names a law, perhaps with bad numbers, rather than a file.
bool IsLengthLaw(absl::string_view text);
// INVALID_ARGUMENT with the known laws, or with the number that is wrong.
absl::StatusOr<LengthLaw> ParseLengthLaw(absl::string_view text);

// The sizes that short, balanced and long draw from, shortest first.
const std::vector<LengthDraw>& ClipSizes();

std::vector<LengthDraw> DrawLengths(const LengthLaw& law, int64_t num_samples,
                                    uint64_t seed);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_LENGTH_LAW_H_
