#include "data/latents/latents_dataset.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/index/content_sampler.h"
#include "data/index/indexed_file.h"
#include "data/safetensors.h"
#include "data/sample_rules.h"
#include "data/text/file_list.h"

namespace evenstep::data {
namespace {

// Products of sides stay within 63 bits.
constexpr int64_t kMaxSide = int64_t{1} << 20;

struct IndexedClip {
  size_t file = 0;
  std::string tensor;
  std::string dtype;
  int64_t offset = 0;
  int64_t channels = 0;  // of a latent
  ClipShape shape;       // in patches, after truncation
};

struct LatentsFile {
  std::string path;
  IndexedFile as_indexed;
};

int64_t BytesPerValue(absl::string_view dtype) {
  if (dtype == "F32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

// IEEE 754 half precision.
float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign == 0 ? value : -value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <typename Bits>
Bits BitsAt(absl::string_view bytes, int64_t index) {
  Bits bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(Bits), sizeof(Bits));
  return bits;
}

float ValueAt(absl::string_view bytes, absl::string_view dtype, int64_t index) {
  if (dtype == "F32") return BitsAt<float>(bytes, index);
  const auto bits = BitsAt<uint16_t>(bytes, index);
  if (dtype == "F16") return FromHalf(bits);
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Latents [F, H, W, C] in rows of patches: values of a patch from its rows,
// from left to right.
std::vector<float> Patches(absl::string_view bytes, const IndexedClip& clip,
                           int64_t patch) {
  const ClipShape& shape = clip.shape;
  const int64_t channels = clip.channels;
  const int64_t width = shape.width * patch;
  std::vector<float> values;
  values.reserve(shape.tokens() * patch * patch * channels);
  for (int64_t token = 0; token < shape.tokens(); ++token) {
    const int64_t row = token / shape.width * patch;  // over all frames
    const int64_t column = token % shape.width * patch;
    for (int64_t y = 0; y < patch; ++y) {
      const int64_t first = ((row + y) * width + column) * channels;
      for (int64_t i = 0; i < patch * channels; ++i) {
        values.push_back(ValueAt(bytes, clip.dtype, first + i));
      }
    }
  }
  return values;
}

class LatentsDataset : public Dataset {
 public:
  LatentsDataset(std::vector<LatentsFile> files, std::vector<IndexedClip> clips,
                 const DatasetSummary& summary, int64_t patch)
      : files_(std::move(files)),
        clips_(std::move(clips)),
        summary_(summary),
        patch_(patch) {}

  const DatasetSummary& summary() const override { return summary_; }
  int64_t Length(int64_t document) const override {
    return clips_[document].shape.tokens();
  }
  int64_t TrainedTokens(int64_t document) const override {
    return Length(document);
  }
  int64_t Vocab() const override { return 0; }  // no tokens
  ClipShape Shape(int64_t document) const override {
    return clips_[document].shape;
  }
  std::string Name(int64_t document) const override {
    const IndexedClip& clip = clips_[document];
    return absl::StrCat(files_[clip.file].path, ":", clip.tensor);
  }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary_.num_samples));
    const IndexedClip& indexed = clips_[document];
    const LatentsFile& file = files_[indexed.file];
    auto clip = std::make_shared<Clip>();
    clip->shape = indexed.shape;
    clip->channels = patch_ * patch_ * indexed.channels;
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string bytes,
        ReadIndexedBytes(file.path, file.as_indexed, indexed.offset,
                         clip->shape.tokens() * clip->channels *
                             BytesPerValue(indexed.dtype)));
    clip->values = Patches(bytes, indexed, patch_);
    SampleTokens sample;
    sample.clip = std::move(clip);
    return sample;
  }

 private:
  const std::vector<LatentsFile> files_;
  const std::vector<IndexedClip> clips_;
  const DatasetSummary summary_;
  const int64_t patch_;
};

// Walks the headers of all files.
class LatentsIndexer {
 public:
  LatentsIndexer(const FileList& list, const DatasetOptions& options)
      : list_(list),
        options_(options),
        rules_(options),
        sampler_(SoundFileSizes(list)) {
    for (const int64_t setting :
         {options.max_length, static_cast<int64_t>(options.on_too_long),
          static_cast<int64_t>(options.on_bad_sample),
          static_cast<int64_t>(options.patch),
          static_cast<int64_t>(options.channels)}) {
      content_.AddInt(setting);
    }
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Index() {
    for (const ListedFile& file : list_.files) {
      if (HoldsLatents(file)) AddFile(file);
    }
    const auto num_samples = static_cast<int64_t>(clips_.size());
    EVENSTEP_RETURN_IF_ERROR(rules_.Check(num_samples));
    DatasetSummary summary;
    summary.num_samples = num_samples;
    summary.num_too_long = rules_.num_too_long();
    summary.num_bad = rules_.num_bad();
    summary.num_truncated = rules_.num_truncated();
    summary.content_key = content_.value();
    for (const IndexedClip& clip : clips_) {
      summary.longest = std::max(summary.longest, clip.shape.tokens());
      summary.total_tokens += clip.shape.tokens();
    }
    LogIndexed(options_, files_.size(), list_.num_links, summary,
               rules_.notes());
    return std::make_unique<LatentsDataset>(
        std::move(files_), std::move(clips_), summary, options_.patch);
  }

 private:
  static bool HoldsLatents(const ListedFile& file) {
    return absl::EndsWith(file.name, ".safetensors");
  }

  static std::vector<int64_t> SoundFileSizes(const FileList& list) {
    std::vector<int64_t> sizes;
    for (const ListedFile& file : list.files) {
      if (HoldsLatents(file) && file.problem.empty()) {
        sizes.push_back(file.bytes);
      }
    }
    return sizes;
  }

  void AddFile(const ListedFile& file) {
    const std::string path = absl::StrCat(list_.root, "/", file.name);
    content_.AddString(file.name);
    content_.AddInt(file.bytes);
    if (!file.problem.empty()) return rules_.AddBad(file.name, file.problem);
    const absl::Status read = sampler_.AddFile(
        path, file.bytes,
        [&](absl::string_view block) { content_.AddString(block); });
    if (!read.ok())
      return rules_.AddBad(file.name, std::string(read.message()));
    const auto places = ReadSafetensorsPlaces(path);
    if (!places.ok()) {
      return rules_.AddBad(file.name, std::string(places.status().message()));
    }
    LatentsFile& added = files_.emplace_back();
    added.path = path;
    added.as_indexed.bytes = file.bytes;
    added.as_indexed.mtime_ns = file.mtime_ns;
    for (const TensorPlace& place : *places) {
      AddClip(absl::StrCat(file.name, ":", place.name), place);
    }
  }

  void AddClip(const std::string& name, const TensorPlace& place) {
    content_.AddString(place.name);
    content_.AddString(place.dtype);
    for (const int64_t side : place.shape) content_.AddInt(side);
    const std::string problem = ProblemOf(place);
    if (!problem.empty()) return rules_.AddBad(name, problem);
    const int64_t patch = options_.patch;
    IndexedClip clip{
        files_.size() - 1,
        place.name,
        place.dtype,
        place.offset,
        place.shape[3],
        {place.shape[0], place.shape[1] / patch, place.shape[2] / patch}};
    if (clip.shape.tokens() > options_.max_length) {
      const int64_t frames = options_.max_length / clip.shape.patches();
      // A single frame that is too long cannot be cut.
      if (frames == 0 && options_.on_too_long == OnTooLong::kTruncate) {
        return rules_.AddBad(
            name, absl::StrCat("a frame has ", clip.shape.patches(),
                               " tokens, max_length is ", options_.max_length));
      }
      rules_.AddTooLong(name, clip.shape.tokens());
      if (options_.on_too_long != OnTooLong::kTruncate) return;
      clip.shape.frames = frames;
    }
    clips_.push_back(std::move(clip));
  }

  // Why a tensor is no clip of this job; empty: it is one.
  std::string ProblemOf(const TensorPlace& place) const {
    const std::string form =
        absl::StrCat(place.dtype, " [", absl::StrJoin(place.shape, ", "), "]");
    if (BytesPerValue(place.dtype) == 0) {
      return absl::StrCat(form, ": latents are F32, F16 or BF16");
    }
    if (place.shape.size() != 4) {
      return absl::StrCat(form,
                          ": a clip is [frames, height, width, channels]");
    }
    for (const int64_t side : place.shape) {
      if (side < 1 || side > kMaxSide) {
        return absl::StrCat(form, ": a side is not in 1 to ", kMaxSide);
      }
    }
    const int64_t patch = options_.patch;
    if (place.shape[1] % patch != 0 || place.shape[2] % patch != 0) {
      return absl::StrCat(form, ": height and width are no multiples of ",
                          patch, ", the side of a patch");
    }
    if (options_.channels != 0 && place.shape[3] != options_.channels) {
      return absl::StrCat(form, ": the model has ", options_.channels,
                          " channels");
    }
    return "";
  }

  const FileList& list_;
  const DatasetOptions& options_;
  SampleRules rules_;
  ContentSampler sampler_;
  Fnv1a64 content_;
  std::vector<LatentsFile> files_;
  std::vector<IndexedClip> clips_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenLatentsDataset(
    const DatasetOptions& options, absl::string_view path) {
  if (options.patch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a patch of ", options.patch, " latent pixels"));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const FileList list, ListFiles(path));
  return LatentsIndexer(list, options).Index();
}

}  // namespace evenstep::data
