// Any bytes as a file of lengths and as a law: an error or lengths in range.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "client/plan/length_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto check = [](const auto& draws) {
    for (const auto& draw : draws) {
      EVENSTEP_CHECK(draw.length >= 1 && draw.length <= int64_t{1} << 28,
                     "a length out of range");
    }
  };
  auto lengths = evenstep::plan::ParseLengths(text);
  if (lengths.ok()) check(*lengths);
  auto law = evenstep::data::ParseLengthLaw(text);
  if (law.ok()) check(evenstep::data::DrawLengths(*law, 64, 1));
  return 0;
}
