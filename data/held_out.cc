#include "data/held_out.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/counter_random.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/index/indexed_file.h"
#include "data/sampler.h"

namespace evenstep::data {
namespace {

constexpr uint64_t kSplitStream = 0x68656c64;

// Some documents of another data set.
class Subset : public Dataset {
 public:
  // `left_out` are its counts of documents that are left out or cut.
  Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> documents,
         const DatasetSummary& left_out)
      : whole_(std::move(whole)), documents_(std::move(documents)) {
    summary_ = left_out;
    summary_.num_samples = static_cast<int64_t>(documents_.size());
    summary_.longest = 0;
    summary_.total_tokens = 0;
    Fnv1a64 key;
    key.AddInt(static_cast<int64_t>(whole_->summary().content_key));
    for (const int64_t document : documents_) {
      const int64_t length = whole_->Length(document);
      summary_.longest = std::max(summary_.longest, length);
      summary_.total_tokens += length;
      key.AddInt(document);
    }
    summary_.content_key = key.value();
  }

  const DatasetSummary& summary() const override { return summary_; }
  int64_t Length(int64_t document) const override {
    return whole_->Length(documents_[document]);
  }
  int64_t TrainedTokens(int64_t document) const override {
    return whole_->TrainedTokens(documents_[document]);
  }
  ClipShape Shape(int64_t document) const override {
    return whole_->Shape(documents_[document]);
  }
  std::string Name(int64_t document) const override {
    return whole_->Name(documents_[document]);
  }
  // With their count.
  absl::Span<const std::string> BadSamples() const override {
    return summary_.num_bad > 0 ? whole_->BadSamples() : Dataset::BadSamples();
  }
  std::vector<std::string> LeftOutJson(bool foreign,
                                       size_t most) const override {
    return whole_->LeftOutJson(foreign, most);
  }
  uint64_t ContentHash(int64_t document) const override {
    return whole_->ContentHash(documents_[document]);
  }
  int64_t Vocab() const override { return whole_->Vocab(); }
  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary_.num_samples));
    return whole_->Read(documents_[document]);
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::vector<int64_t> documents_;
  DatasetSummary summary_;
};

}  // namespace

absl::StatusOr<HeldOutSplit> SplitHeldOut(std::unique_ptr<Dataset> dataset,
                                          double share, uint64_t seed) {
  if (share == 0) return HeldOutSplit{std::move(dataset), nullptr};
  if (!(share > 0 && share < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a held-out share of ", share, " is not in 0 to 1"));
  }
  const std::shared_ptr<const Dataset> whole = std::move(dataset);
  const CounterRandom random = CounterRandom(seed).Stream(kSplitStream);
  std::vector<int64_t> training;
  std::vector<int64_t> held_out;
  for (int64_t i = 0; i < whole->summary().num_samples; ++i) {
    (random.Uniform(i) < share ? held_out : training).push_back(i);
  }
  if (training.empty() || held_out.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a held-out share of ", share, " splits ", whole->summary().num_samples,
        " samples into ", training.size(), " to train on and ", held_out.size(),
        " to evaluate on; both need one"));
  }
  HeldOutSplit split;
  split.training =
      std::make_unique<Subset>(whole, std::move(training), whole->summary());
  split.held_out =
      std::make_unique<Subset>(whole, std::move(held_out), DatasetSummary());
  return split;
}

EvaluatedDocuments ChooseEvaluated(const Dataset& held_out, int64_t most,
                                   uint64_t seed) {
  const int64_t num_documents = held_out.summary().num_samples;
  const auto wanted = static_cast<size_t>(most == 0 ? num_documents : most);
  // The first ids of a permutation: no document comes twice.
  const Sampler order(seed, num_documents, /*samples_per_step=*/1);
  EvaluatedDocuments chosen;
  for (int64_t i = 0; i < num_documents && chosen.documents.size() < wanted;
       ++i) {
    const int64_t document = order.Document(i);
    if (held_out.TrainedTokens(document) == 0) {
      ++chosen.num_untrained;
      continue;
    }
    chosen.documents.push_back(document);
    chosen.num_tokens += held_out.Length(document);
  }
  return chosen;
}

int64_t CountTrainedOn(const Dataset& training, const Dataset& held_out,
                       const std::vector<int64_t>& documents) {
  std::vector<uint64_t> evaluated;
  evaluated.reserve(documents.size());
  for (const int64_t document : documents) {
    evaluated.push_back(held_out.ContentHash(document));
  }
  std::sort(evaluated.begin(), evaluated.end());
  std::vector<bool> found(evaluated.size());
  for (int64_t i = 0; i < training.summary().num_samples; ++i) {
    const uint64_t hash = training.ContentHash(i);
    if (hash == 0) continue;
    const auto [first, last] =
        std::equal_range(evaluated.begin(), evaluated.end(), hash);
    if (first == last || found[first - evaluated.begin()]) continue;
    std::fill(found.begin() + (first - evaluated.begin()),
              found.begin() + (last - evaluated.begin()), true);
  }
  return std::count(found.begin(), found.end(), true);
}

}  // namespace evenstep::data
