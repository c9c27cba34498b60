#include "worker/trainer/profile/profile_points.h"

#include <algorithm>
#include <cmath>

#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"
#include "planner/planner.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using jobspec::ProfilePoint;

constexpr int kDeepestLayers = 3;
constexpr int kDeepestVideoLayers = 4;

// `fullest` divided by powers of four, down to `smallest`.
std::vector<int64_t> Quarters(int64_t fullest, int64_t smallest) {
  std::vector<int64_t> sizes;
  for (int64_t tokens = fullest; tokens >= std::min(smallest, fullest);
       tokens /= 4) {
    sizes.push_back(tokens);
  }
  return sizes;
}

// So many tokens in documents of at most `longest`.
std::vector<int64_t> Documents(int64_t tokens, int64_t longest) {
  std::vector<int64_t> lengths(tokens / longest, longest);
  if (tokens % longest > 0) lengths.push_back(tokens % longest);
  return lengths;
}

std::vector<int64_t> Joined(const std::vector<std::vector<int64_t>>& parts) {
  std::vector<int64_t> all;
  for (const auto& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Sizes, mixtures and combinations that the fit has not seen.
void AddHeldOut(const ProfileShape& shape, int64_t fullest, int layers,
                std::vector<ProfilePoint>* points) {
  const auto part = [&](int64_t divisor) {
    return Documents(std::max<int64_t>(1, fullest / divisor), shape.longest);
  };
  std::vector<int> degrees = ProfileDegrees(shape);
  degrees.insert(degrees.begin(), 1);
  for (const int degree : degrees) {
    for (const std::vector<int64_t>& lengths :
         {part(2), part(8), Joined({part(2), part(4), part(8)})}) {
      points->push_back({.layers = layers,
                         .degree = degree,
                         .lengths = lengths,
                         .held_out = true});
    }
    points->push_back({.layers = layers,
                       .recompute_layers = (layers + 1) / 2,
                       .degree = degree,
                       .lengths = part(2),
                       .held_out = true});
  }
}

std::vector<ProfilePoint> TextPoints(const ProfileShape& shape) {
  const int64_t fullest = shape.fullest > 0 ? shape.fullest : shape.longest;
  const std::vector<int> depths = ProfileDepths(shape.model);
  const std::vector<int64_t> sizes = Quarters(fullest, shape.smallest);
  const auto documents = [&](int64_t tokens) {
    return Documents(tokens, shape.longest);
  };
  std::vector<ProfilePoint> points;
  for (const int layers : depths) {
    for (const int64_t tokens : sizes) {
      points.push_back({.layers = layers, .lengths = documents(tokens)});
    }
  }
  const int deep = depths.back();
  for (const int64_t tokens : {fullest, std::max<int64_t>(1, fullest / 4)}) {
    points.push_back({.layers = deep,
                      .recompute_layers = deep,
                      .lengths = documents(tokens)});
  }
  // Tokens beside pairs of tokens, where all micro-batches are packed.
  if (fullest > shape.longest) {
    const int64_t brief = std::max<int64_t>(1, shape.longest / 16);
    points.push_back({.layers = deep, .lengths = Documents(fullest, brief)});
  }
  for (const int degree : ProfileDegrees(shape)) {
    for (const int64_t tokens : sizes) {
      points.push_back(
          {.layers = deep, .degree = degree, .lengths = documents(tokens)});
    }
  }
  AddHeldOut(shape, fullest, deep, &points);
  return points;
}

// Proportions of a clip.
enum class Form { kStill, kWide, kSquare, kLong, kColumn };

// About so many tokens, at most: of a square, a quarter or four times as many
// frames as patches, of one frame, or of one patch.
ClipShape ClipOf(int64_t tokens, Form form) {
  const double root = std::sqrt(static_cast<double>(tokens));
  double frames = root;
  if (form == Form::kStill) frames = 1;
  if (form == Form::kWide) frames = root / 2;
  if (form == Form::kLong) frames = root * 2;
  if (form == Form::kColumn) frames = static_cast<double>(tokens);
  ClipShape clip;
  clip.frames = std::clamp<int64_t>(std::llround(frames), 1, tokens);
  const int64_t patches = tokens / clip.frames;
  clip.height = std::max<int64_t>(
      1, static_cast<int64_t>(std::sqrt(static_cast<double>(patches))));
  clip.width = patches / clip.height;
  return clip;
}

// The points of a video model, one after the other.
class ClipPoints {
 public:
  explicit ClipPoints(const ProfileShape& shape)
      : shape_(shape),
        model_(jobspec::ToModelShape(shape.model)),
        fullest_(shape.fullest > 0 ? shape.fullest : shape.longest) {}

  std::vector<ProfilePoint> All() {
    const std::vector<int> depths = ProfileDepths(shape_.model);
    const std::vector<int64_t> sizes = Quarters(fullest_, shape_.smallest);
    deep_ = depths.back();
    for (const int layers : depths) {
      for (const int64_t tokens : sizes) {
        Add({.layers = layers}, Clips(tokens, Form::kSquare));
      }
    }
    for (const int64_t tokens : {Part(1), Part(4)}) {
      Add(Deep(), Clips(tokens, Form::kStill));
      Add(Deep(), Clips(tokens, Form::kColumn));
      AddRecompute(Clips(tokens, Form::kSquare));
    }
    for (const int degree : ProfileDegrees(shape_)) {
      for (const int64_t tokens : sizes) {
        Add(Deep(degree), Clips(tokens, Form::kSquare));
      }
      Add(Deep(degree), Clips(Part(1), Form::kLong));
    }
    AddHeldOutPoints(1);
    for (const int degree : ProfileDegrees(shape_)) AddHeldOutPoints(degree);
    return std::move(points_);
  }

 private:
  using Shapes = std::vector<ClipShape>;

  int64_t Part(int64_t divisor) const {
    return std::max<int64_t>(1, fullest_ / divisor);
  }

  ProfilePoint Deep(int degree = 1) const {
    return {.layers = deep_, .degree = degree};
  }

  // So many tokens in clips of at most the longest.
  Shapes Clips(int64_t tokens, Form form) const {
    Shapes clips;
    for (const int64_t length : Documents(tokens, shape_.longest)) {
      clips.push_back(ClipOf(length, form));
    }
    return clips;
  }

  void Add(ProfilePoint point, const Shapes& clips) {
    const planner::SequenceSplit split =
        planner::SplitFor(model_, point.degree);
    for (const ClipShape& clip : clips) {
      planner::Sample sample;
      sample.length = clip.tokens();
      sample.frames = clip.frames;
      sample.height = clip.height;
      sample.width = clip.width;
      if (point.degree > 1 && !planner::CanShare(split, sample)) return;
      point.lengths.push_back(clip.tokens());
      point.shapes.push_back(clip);
    }
    points_.push_back(std::move(point));
  }

  void AddRecompute(const Shapes& clips) {
    const int kind = deep_ / 2;  // layers of a kind
    ProfilePoint point = Deep();
    point.recompute_layers = kind;
    Add(point, clips);
    point.recompute_temporal_layers = kind;
    Add(point, clips);
    point.recompute_layers = 0;
    Add(point, clips);
  }

  void AddHeldOutPoints(int degree) {
    ProfilePoint point = Deep(degree);
    point.held_out = true;
    Add(point, Clips(Part(2), Form::kWide));
    Add(point, Clips(Part(8), Form::kSquare));
    Shapes mixture = Clips(Part(2), Form::kLong);
    for (const ClipShape& clip : Clips(Part(4), Form::kSquare)) {
      mixture.push_back(clip);
    }
    Add(point, mixture);
    point.recompute_layers = point.recompute_temporal_layers = (deep_ + 2) / 4;
    Add(point, Clips(Part(2), Form::kSquare));
  }

  const ProfileShape& shape_;
  const planner::ModelShape model_;
  const int64_t fullest_;
  int deep_ = 0;
  std::vector<ProfilePoint> points_;
};

}  // namespace

std::vector<int> ProfileDepths(const jobspec::ModelSpec& model) {
  // As many layers of either kind.
  const int least = model.is_video() ? 2 : 1;
  const int deepest = model.is_video() ? kDeepestVideoLayers : kDeepestLayers;
  if (model.layers == least) return {least};
  return {least, std::min(model.layers, deepest)};
}

std::vector<int> ProfileDegrees(const ProfileShape& shape) {
  planner::PlanRequest request;
  request.cluster.ranks_per_node = {shape.ranks};
  request.model = jobspec::ToModelShape(shape.model);
  std::vector<int> degrees;
  for (const int degree : planner::LegalDegrees(request)) {
    if (degree > 1 && shape.ranks % degree == 0) degrees.push_back(degree);
  }
  return degrees;
}

std::vector<ProfilePoint> ProfilePoints(const ProfileShape& shape) {
  std::vector<ProfilePoint> points =
      shape.model.is_video() ? ClipPoints(shape).All() : TextPoints(shape);
  std::stable_sort(points.begin(), points.end(),
                   [](const ProfilePoint& a, const ProfilePoint& b) {
                     return a.layers < b.layers;
                   });
  return points;
}

}  // namespace evenstep::trainer
