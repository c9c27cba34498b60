#include "data/length_law.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/counter_random.h"
#include "base/parse_value.h"
#include "base/status_macros.h"

namespace evenstep::data {
namespace {

constexpr char kKnownLaws[] =
    "short, balanced, long, wikipedia and lognormal(mean, sigma[, min, max])";
constexpr int64_t kLongestLength = int64_t{1} << 28;
constexpr double kMaxSigma = 10;
// The benchmark's law: exponent, and ranks that are left out.
constexpr double kZipfExponent = 3;
constexpr double kZipfOffset = 5;

// Patches of a frame at 144p, 240p, 360p, 480p and 720p: the latent is an
// eighth of the pixels, a patch two by two of it.
constexpr int64_t kPatches[][2] = {
    {9, 16}, {15, 27}, {23, 40}, {30, 54}, {45, 80}};
// Latent frames of 1, 51, 102, 204 and 408.
constexpr int64_t kFrames[] = {1, 15, 30, 60, 120};

// Of 100,000 lengths of Wikipedia articles in tokens, the first of a public
// list of a million that FlexSP's authors used.
struct Quantile {
  double probability;
  double length;
};
constexpr Quantile kWikipedia[] = {
    {0, 1},        {.01, 39},      {.02, 48},      {.05, 67},
    {.1, 87},      {.15, 102},     {.2, 121},      {.25, 146},
    {.3, 172},     {.35, 205},     {.4, 243},      {.45, 290},
    {.5, 347},     {.55, 412},     {.6, 472},      {.65, 556},
    {.7, 685},     {.75, 861},     {.8, 1091},     {.85, 1464},
    {.9, 2103},    {.925, 2712},   {.95, 3720},    {.97, 5375},
    {.98, 7052},   {.99, 10962},   {.995, 16119},  {.998, 27162},
    {.999, 40012}, {.9995, 53322}, {.9998, 84275}, {.9999, 98680},
    {1, 269428}};

double WikipediaLength(double u) {
  const Quantile* above = kWikipedia + 1;
  while (above->probability < u) ++above;
  const Quantile* below = above - 1;
  const double share =
      (u - below->probability) / (above->probability - below->probability);
  return below->length * std::pow(above->length / below->length, share);
}

LengthLaw SizesLaw(absl::string_view name) {
  LengthLaw law;
  law.name = std::string(name);
  law.kind = LengthLaw::Kind::kSizes;
  const size_t num_sizes = ClipSizes().size();
  double sum = 0;
  for (size_t k = 1; k <= num_sizes; ++k) {
    const double exponent = name == "balanced" ? 0 : kZipfExponent;
    law.weights.push_back(
        1 / std::pow(static_cast<double>(k) + kZipfOffset, exponent));
    sum += law.weights.back();
  }
  for (double& weight : law.weights) weight /= sum;
  if (name == "long") std::reverse(law.weights.begin(), law.weights.end());
  return law;
}

absl::Status Refuse(absl::string_view text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("law '", text, "': ", why, "; the laws are ", kKnownLaws));
}

// Numbers of lognormal(...) while they are read.
struct Lognormal {
  double mean = 0;
  double median = 0;
  double sigma = -1;
  int64_t min = 1;
  int64_t max = kLongestLength;
};

absl::Status SetNumber(const std::string& key, const std::string& value,
                       Lognormal* law) {
  if (key == "mean") return ParseValue(value, &law->mean);
  if (key == "median") return ParseValue(value, &law->median);
  if (key == "sigma") return ParseValue(value, &law->sigma);
  if (key == "min") return ParseValue(value, &law->min);
  if (key == "max") return ParseValue(value, &law->max);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown number '", key,
                   "'; mean, median, sigma, min and max are known"));
}

absl::Status CheckLognormal(const Lognormal& law) {
  if ((law.mean > 0) == (law.median > 0)) {
    return absl::InvalidArgumentError(
        "give a mean or a median above 0, and not both");
  }
  const double centre = std::max(law.mean, law.median);
  if (!(centre <= static_cast<double>(kLongestLength))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mean or median is ", centre, "; at most ", kLongestLength));
  }
  if (!(law.sigma >= 0 && law.sigma <= kMaxSigma)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sigma is from 0 to ", kMaxSigma));
  }
  if (law.min < 1 || law.max < law.min || law.max > kLongestLength) {
    return absl::InvalidArgumentError(absl::StrCat("min is ", law.min,
                                                   " and max ", law.max,
                                                   "; 1 <= min <= "
                                                   "max <= ",
                                                   kLongestLength));
  }
  return absl::OkStatus();
}

absl::StatusOr<Lognormal> ParseNumbers(absl::string_view inside) {
  constexpr const char* kPositions[] = {"mean", "sigma", "min", "max"};
  Lognormal law;
  size_t position = 0;
  for (absl::string_view part : absl::StrSplit(inside, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const bool named = absl::StrContains(part, '=');
    if (!named && position == std::size(kPositions)) {
      return absl::InvalidArgumentError("more than four numbers");
    }
    const std::string key =
        named ? std::string(absl::StripAsciiWhitespace(pair.first))
              : kPositions[position++];
    const std::string value(
        absl::StripAsciiWhitespace(named ? pair.second : part));
    EVENSTEP_RETURN_IF_ERROR(SetNumber(key, value, &law));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckLognormal(law));
  return law;
}

absl::StatusOr<LengthLaw> ParseLognormal(absl::string_view text) {
  absl::string_view inside = text;
  if (!absl::ConsumePrefix(&inside, "lognormal(") ||
      !absl::ConsumeSuffix(&inside, ")")) {
    return Refuse(text, "lognormal needs its numbers in brackets");
  }
  const absl::StatusOr<Lognormal> numbers = ParseNumbers(inside);
  if (!numbers.ok()) {
    return Refuse(text, std::string(numbers.status().message()));
  }
  LengthLaw law;
  law.name = std::string(text);
  law.sigma = numbers->sigma;
  law.min_length = numbers->min;
  law.max_length = numbers->max;
  law.log_median = numbers->median > 0
                       ? std::log(numbers->median)
                       : std::log(numbers->mean) - law.sigma * law.sigma / 2;
  return law;
}

LengthDraw Draw(const LengthLaw& law, const CounterRandom& random, int64_t i) {
  if (law.kind == LengthLaw::Kind::kSizes) {
    double u = random.Uniform(i);
    size_t size = 0;
    while (size + 1 < law.weights.size() && u >= law.weights[size]) {
      u -= law.weights[size++];
    }
    return ClipSizes()[size];
  }
  LengthDraw draw;
  if (law.kind == LengthLaw::Kind::kQuantiles) {
    draw.length = std::llround(WikipediaLength(random.Uniform(i)));
    return draw;
  }
  const double log_length = law.log_median + law.sigma * random.Normal(i);
  const double length =
      std::clamp(std::exp(log_length), static_cast<double>(law.min_length),
                 static_cast<double>(law.max_length));
  draw.length = std::llround(length);
  return draw;
}

}  // namespace

const std::vector<LengthDraw>& ClipSizes() {
  static const auto* const kSizes = [] {
    auto* sizes = new std::vector<LengthDraw>();
    for (const auto& [height, width] : kPatches) {
      for (int64_t frames : kFrames) {
        sizes->push_back({frames * height * width, frames, height, width});
      }
    }
    std::sort(sizes->begin(), sizes->end(),
              [](const LengthDraw& a, const LengthDraw& b) {
                return a.length < b.length;
              });
    return sizes;
  }();
  return *kSizes;
}

std::vector<std::string> LengthLawNames() {
  return {"short", "balanced", "long", "wikipedia", "lognormal"};
}

bool IsLengthLaw(absl::string_view text) {
  const std::vector<std::string> names = LengthLawNames();
  return std::find(names.begin(), names.end(), text) != names.end() ||
         absl::StartsWith(text, "lognormal(");
}

absl::StatusOr<LengthLaw> ParseLengthLaw(absl::string_view text) {
  if (text == "short" || text == "balanced" || text == "long") {
    return SizesLaw(text);
  }
  if (text == "wikipedia") {
    LengthLaw law;
    law.name = "wikipedia";
    law.kind = LengthLaw::Kind::kQuantiles;
    return law;
  }
  if (absl::StartsWith(text, "lognormal")) return ParseLognormal(text);
  return Refuse(text, "unknown");
}

std::vector<LengthDraw> DrawLengths(const LengthLaw& law, int64_t num_samples,
                                    uint64_t seed) {
  const CounterRandom random(seed);
  std::vector<LengthDraw> draws;
  draws.reserve(num_samples);
  for (int64_t i = 0; i < num_samples; ++i) {
    draws.push_back(Draw(law, random, i));
  }
  return draws;
}

}  // namespace evenstep::data
