#include "data/latents/latents_dataset.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/index/index_cache.h"
#include "data/index/indexed_file.h"
#include "data/index/selection.h"
#include "data/latents/clip_index.h"
#include "data/text/file_list.h"

namespace evenstep::data {
namespace {

ClipShape InPatches(const IndexedClip& clip, int64_t patch) {
  return {clip.frames, clip.height / patch, clip.width / patch};
}

// Whole frames of at most `max_length` tokens.
ClipShape Truncated(ClipShape shape, int64_t max_length) {
  shape.frames = std::min(shape.frames, max_length / shape.patches());
  return shape;
}

// Latents [F, H, W, C] in rows of patches: values of a patch from its rows,
// from left to right.
std::vector<float> Patches(absl::string_view bytes, const IndexedClip& clip,
                           const ClipShape& shape, int64_t patch) {
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
        values.push_back(ValueAt(bytes, clip.type, first + i));
      }
    }
  }
  return values;
}

std::string NameOf(const LengthIndex& index, int64_t row) {
  return absl::StrCat(index.file_name(index.document(row).file), ":",
                      ClipOf(index, row).name);
}

class LatentsDataset : public Dataset {
 public:
  LatentsDataset(std::string root, Selection selection, int64_t patch,
                 int64_t max_length)
      : root_(std::move(root)),
        selection_(std::move(selection)),
        patch_(patch),
        max_length_(max_length) {}

  const DatasetSummary& summary() const override {
    return selection_.summary();
  }
  int64_t Length(int64_t document) const override {
    return Shape(document).tokens();
  }
  int64_t TrainedTokens(int64_t document) const override {
    return Length(document);
  }
  absl::Span<const std::string> BadSamples() const override {
    return selection_.notes();
  }
  uint64_t ContentHash(int64_t document) const override {
    return selection_.document(document).hash;
  }
  int64_t Vocab() const override { return 0; }  // no tokens
  ClipShape Shape(int64_t document) const override {
    return Truncated(InPatches(Clip(document), patch_), max_length_);
  }
  std::string Name(int64_t document) const override {
    return absl::StrCat(root_, "/",
                        NameOf(selection_.index(), selection_.row(document)));
  }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary().num_samples));
    const LengthIndex& index = selection_.index();
    const IndexedDocument& row = selection_.document(document);
    const IndexedClip indexed = Clip(document);
    auto clip = std::make_shared<data::Clip>();
    clip->shape = Shape(document);
    clip->channels = patch_ * patch_ * indexed.channels;
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string bytes,
        ReadIndexedDocument(
            {absl::StrCat(root_, "/", index.file_name(row.file)),
             Name(document), index.file(row.file), row},
            clip->shape.tokens() * clip->channels *
                BytesPerValue(indexed.type)));
    clip->values = Patches(bytes, indexed, clip->shape, patch_);
    SampleTokens sample;
    sample.clip = std::move(clip);
    return sample;
  }

 private:
  IndexedClip Clip(int64_t document) const {
    return ClipOf(selection_.index(), selection_.row(document));
  }

  const std::string root_;
  const Selection selection_;
  const int64_t patch_;
  const int64_t max_length_;
};

// Why a clip is none of a job's; empty: it is one.
std::string ProblemOf(const IndexedClip& clip, const DatasetOptions& options) {
  const std::string form =
      absl::StrCat(ValueTypeName(clip.type), " [", clip.frames, ", ",
                   clip.height, ", ", clip.width, ", ", clip.channels, "]");
  if (clip.height % options.patch != 0 || clip.width % options.patch != 0) {
    return absl::StrCat(form, ": height and width are no multiples of ",
                        options.patch, ", the side of a patch");
  }
  if (options.channels != 0 && clip.channels != options.channels) {
    return absl::StrCat(form, ": the model has ", options.channels,
                        " channels");
  }
  const int64_t frame = InPatches(clip, options.patch).patches();
  // A single frame that is too long cannot be cut.
  if (frame > options.max_length &&
      options.on_too_long == OnTooLong::kTruncate) {
    return absl::StrCat("a frame has ", frame, " tokens, max_length is ",
                        options.max_length);
  }
  return "";
}

JudgedDocument Judge(const IndexedClip& clip, const DatasetOptions& options) {
  JudgedDocument judged;
  judged.problem = ProblemOf(clip, options);
  if (!judged.problem.empty()) return judged;
  const ClipShape shape = InPatches(clip, options.patch);
  judged.num_tokens = shape.tokens();
  judged.truncated_tokens = Truncated(shape, options.max_length).tokens();
  return judged;
}

// A folder that cannot be listed may hold some.
bool HoldsNoLatents(const ListedFile& file) {
  return !absl::EndsWith(file.name, ".safetensors") &&
         !absl::StartsWith(file.problem, kUnlistedFolder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenLatentsDataset(
    const DatasetOptions& options, absl::string_view path) {
  if (options.patch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a patch of ", options.patch, " latent pixels"));
  }
  EVENSTEP_ASSIGN_OR_RETURN(FileList list, ListFiles(path));
  std::erase_if(list.files, HoldsNoLatents);
  EVENSTEP_ASSIGN_OR_RETURN(
      Selection selection,
      OpenSelection(
          list, options, /*tokenizer_key=*/0,
          [&](IndexBuilder& builder) { return ScanClips(list, &builder); },
          {.check = CheckClips,
           .name = NameOf,
           .judge = [&](const LengthIndex& index, int64_t row) {
             return Judge(ClipOf(index, row), options);
           }}));
  return std::make_unique<LatentsDataset>(list.root, std::move(selection),
                                          options.patch, options.max_length);
}

}  // namespace evenstep::data
