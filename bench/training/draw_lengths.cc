// draw_lengths LAW COUNT SEED: lengths of a named law (data/length_law.h), one
// a line; of clips also their frames, height and width. For benchmark scripts,
// so that they draw from the same laws as `evenstep plan`.

#include <cstdint>
#include <cstdio>

#include "absl/status/statusor.h"
#include "base/parse_value.h"
#include "data/length_law.h"

int main(int argc, char** argv) {
  int64_t count = 0;
  uint64_t seed = 0;
  if (argc != 4 || !evenstep::ParseValue(argv[2], &count).ok() || count < 1 ||
      !evenstep::ParseValue(argv[3], &seed).ok()) {
    std::fputs("usage: draw_lengths LAW COUNT SEED\n", stderr);
    return 2;
  }
  const absl::StatusOr<evenstep::data::LengthLaw> law =
      evenstep::data::ParseLengthLaw(argv[1]);
  if (!law.ok()) {
    std::fprintf(stderr, "%s\n", law.status().ToString().c_str());
    return 2;
  }
  for (const auto& draw : evenstep::data::DrawLengths(*law, count, seed)) {
    std::printf("%lld", static_cast<long long>(draw.length));
    if (draw.frames > 0) {
      std::printf(" %lld %lld %lld", static_cast<long long>(draw.frames),
                  static_cast<long long>(draw.height),
                  static_cast<long long>(draw.width));
    }
    std::printf("\n");
  }
  return 0;
}
