#include "data/synthetic_dataset.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/counter_random.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "data/index/build_index.h"
#include "data/index/indexed_file.h"
#include "data/index/length_index.h"
#include "data/index/selection.h"
#include "data/length_law.h"
#include "data/length_list.h"
#include "data/text/text_document.h"

namespace evenstep::data {
namespace {

constexpr int64_t kMaxDocuments = int64_t{1} << 24;
constexpr uint64_t kContentStream = 1;

// What stands behind `synthetic:`.
struct Spec {
  std::string law;  // or the path of a list
  int64_t num_documents = kDefaultSyntheticDocuments;
  uint64_t seed = 0;
};

absl::Status SetKey(absl::string_view part, Spec* spec) {
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(part, absl::MaxSplits('=', 1));
  if (pair.first == "documents") {
    return ParseValue(pair.second, &spec->num_documents);
  }
  if (pair.first == "seed") return ParseValue(pair.second, &spec->seed);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown key '", pair.first, "'; documents and seed are known"));
}

absl::StatusOr<Spec> ParseSpec(absl::string_view text) {
  Spec spec;
  if (IsSyntheticPath(text)) {
    spec.law = std::string(text);
    return spec;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  spec.law = std::string(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    const absl::Status status = SetKey(parts[i], &spec);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("synthetic:", text, ": ", status.message()));
    }
  }
  if (spec.num_documents < 1 || spec.num_documents > kMaxDocuments) {
    return absl::InvalidArgumentError(
        absl::StrCat("synthetic:", text, ": ", spec.num_documents,
                     " documents; they are from 1 to ", kMaxDocuments));
  }
  return spec;
}

absl::StatusOr<std::vector<LengthDraw>> Draw(const Spec& spec) {
  if (!IsSyntheticPath(spec.law)) {
    EVENSTEP_ASSIGN_OR_RETURN(const LengthLaw law, ParseLengthLaw(spec.law));
    return DrawLengths(law, spec.num_documents, spec.seed);
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadWholeFile(spec.law, kMaxLengthListBytes));
  auto lengths = ParseLengths(text);
  if (lengths.ok()) return lengths;
  return absl::InvalidArgumentError(
      absl::StrCat(spec.law, ", ", lengths.status().message()));
}

std::string NameOf(int64_t number) { return absl::StrCat("document ", number); }

// As of any other source; there is just no file, and nothing is kept.
absl::StatusOr<LengthIndex> MakeIndex(const std::vector<LengthDraw>& lengths,
                                      const Spec& spec) {
  IndexBuilder builder(/*tokenizer_key=*/spec.seed);
  ListedFile file;
  file.name = spec.law;
  for (const LengthDraw& draw : lengths) file.bytes += draw.length;
  builder.AddFile(file);
  IndexedDocument row;
  for (const LengthDraw& draw : lengths) {
    ++row.number;
    row.bytes = row.num_tokens = draw.length;
    row.num_trained = draw.length - 1;
    builder.AddDocument(NameOf(row.number), row);
    row.offset += draw.length;
  }
  EVENSTEP_ASSIGN_OR_RETURN(std::string bytes,
                            std::move(builder).Finish(/*listing_key=*/0));
  return LengthIndex::FromBytes(std::move(bytes));
}

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(Selection selection, uint64_t seed)
      : selection_(std::move(selection)),
        random_(CounterRandom(seed).Stream(kContentStream)) {}

  const DatasetSummary& summary() const override {
    return selection_.summary();
  }
  int64_t Length(int64_t document) const override {
    return selection_.Length(document);
  }
  int64_t TrainedTokens(int64_t document) const override {
    return selection_.TrainedTokens(document);
  }
  std::string Name(int64_t document) const override {
    return absl::StrCat("synthetic ",
                        NameOf(selection_.document(document).number));
  }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary().num_samples));
    const IndexedDocument& row = selection_.document(document);
    const int64_t length = Length(document);
    const uint64_t start = random_.Bits(row.number, 0) % 256;
    const uint64_t stride = 1 + random_.Bits(row.number, 1) % 7;
    std::vector<int32_t> tokens(length);
    for (int64_t i = 0; i < length; ++i) {
      tokens[i] = static_cast<int32_t>((start + stride * i) % 256);
    }
    if (length == row.num_tokens) tokens.back() = kEndToken;
    return TrainAll(std::move(tokens));
  }

 private:
  const Selection selection_;
  const CounterRandom random_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenSyntheticDataset(
    const DatasetOptions& options, absl::string_view text) {
  EVENSTEP_ASSIGN_OR_RETURN(const Spec spec, ParseSpec(text));
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<LengthDraw> lengths, Draw(spec));
  EVENSTEP_ASSIGN_OR_RETURN(LengthIndex index, MakeIndex(lengths, spec));
  EVENSTEP_ASSIGN_OR_RETURN(
      Selection selection,
      Selection::Make(std::move(index), options,
                      {.name =
                           [](const LengthIndex& documents, int64_t row) {
                             return NameOf(documents.document(row).number);
                           },
                       .judge = JudgeTokens(options, /*vocab=*/0)}));
  return std::make_unique<SyntheticDataset>(std::move(selection), spec.seed);
}

absl::Status LookForSynthetic(absl::string_view text) {
  EVENSTEP_ASSIGN_OR_RETURN(const Spec spec, ParseSpec(text));
  if (!IsSyntheticPath(spec.law)) return ParseLengthLaw(spec.law).status();
  absl::Status read = ReadWholeFile(spec.law, kMaxLengthListBytes).status();
  if (!absl::IsNotFound(read)) return read;
  // The path was made absolute: its last part is what was written.
  const std::string name = std::filesystem::path(spec.law).filename().string();
  return absl::NotFoundError(absl::StrCat(
      "'", name, "' is not a law, and there is no list of lengths ", spec.law,
      KnownNamesHint(name, LengthLawNames())));
}

bool IsSyntheticPath(absl::string_view spec) {
  const std::vector<absl::string_view> parts = absl::StrSplit(spec, ';');
  return !IsLengthLaw(parts[0]);
}

}  // namespace evenstep::data
