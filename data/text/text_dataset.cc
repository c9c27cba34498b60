#include "data/text/text_dataset.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "data/index/content_sampler.h"
#include "data/index/index_cache.h"
#include "data/index/indexed_file.h"
#include "data/text/file_list.h"
#include "data/text/jsonl.h"
#include "data/text/tokenizer.h"

namespace evenstep::data {
namespace {

// Of a file that is one document and has to be read to count its pieces.
constexpr int64_t kMaxTokenizedBytes = kMaxJsonLineBytes;

// Walks the listed files and measures their documents.
class TextScan {
 public:
  TextScan(const FileList& list, const DatasetOptions& options,
           const Tokenizer& tokenizer, IndexBuilder* builder)
      : list_(list),
        options_(options),
        tokenizer_(tokenizer),
        builder_(builder),
        sampler_(WholeFileSizes()) {}

  void Run() {
    for (const ListedFile& file : list_.files) AddFile(file);
  }

 private:
  static bool IsJsonLines(const ListedFile& file) {
    return absl::EndsWith(file.name, ".jsonl");
  }

  // Of files whose size says how long their document is.
  std::vector<int64_t> WholeFileSizes() const {
    std::vector<int64_t> sizes;
    if (!tokenizer_.is_bytes()) return sizes;
    for (const ListedFile& file : list_.files) {
      if (file.problem.empty() && !IsJsonLines(file)) {
        sizes.push_back(file.bytes);
      }
    }
    return sizes;
  }

  void AddFile(const ListedFile& file) {
    builder_->AddFile(file);
    if (!file.problem.empty()) {
      builder_->AddBad(file.name, file.problem);
    } else if (IsJsonLines(file)) {
      AddJsonLines(file);
    } else if (file.bytes == 0) {
      builder_->AddBad(file.name, "empty");
    } else if (tokenizer_.is_bytes()) {
      AddBytes(file);
    } else {
      AddTokenized(file);
    }
  }

  void AddBytes(const ListedFile& file) {
    const absl::Status read = sampler_.AddFile(
        absl::StrCat(list_.root, "/", file.name), file.bytes,
        [&](absl::string_view block) { builder_->AddContent(block); });
    if (!read.ok()) return builder_->AddBad(file.name, read.message());
    builder_->AddDocument(
        file.name, Whole(file),
        {file.bytes + 1, std::min(file.bytes, options_.max_length - 1)});
  }

  static IndexedDocument Whole(const ListedFile& file) {
    IndexedDocument place;
    place.bytes = file.bytes;
    return place;
  }

  void AddTokenized(const ListedFile& file) {
    auto text = ReadWholeFile(absl::StrCat(list_.root, "/", file.name),
                              kMaxTokenizedBytes);
    if (!text.ok()) return builder_->AddBad(file.name, text.status().message());
    builder_->AddContent(*text);
    Measure(file.name, Whole(file), {{*std::move(text), Loss::kTrained, true}});
  }

  void AddJsonLines(const ListedFile& file) {
    const absl::Status status =
        ScanJsonLines(absl::StrCat(list_.root, "/", file.name),
                      [&](const JsonLine& line) { AddJsonLine(file, line); });
    if (!status.ok()) builder_->AddBad(file.name, status.message());
  }

  void AddJsonLine(const ListedFile& file, const JsonLine& line) {
    const std::string name = absl::StrCat(file.name, ":", line.number);
    const absl::StatusOr<TextDocument> document =
        ParseJsonDocument(line.content);
    if (!document.ok()) {
      return builder_->AddBad(name, document.status().message());
    }
    builder_->AddContent(line.content);
    IndexedDocument place;
    place.number = line.number;
    place.offset = line.offset;
    place.bytes = line.bytes;
    Measure(name, place, *document);
  }

  void Measure(const std::string& name, const IndexedDocument& place,
               const TextDocument& document) {
    const auto size =
        MeasureDocument(document, tokenizer_, options_.max_length);
    if (!size.ok()) return builder_->AddBad(name, size.status().message());
    builder_->AddDocument(name, place, *size);
  }

  const FileList& list_;
  const DatasetOptions& options_;
  const Tokenizer& tokenizer_;
  IndexBuilder* const builder_;
  ContentSampler sampler_;
};

class TextDataset : public Dataset {
 public:
  TextDataset(std::string root, std::unique_ptr<Tokenizer> tokenizer,
              LengthIndex index)
      : root_(std::move(root)),
        tokenizer_(std::move(tokenizer)),
        index_(std::move(index)),
        summary_(index_.summary()) {}

  const DatasetSummary& summary() const override { return summary_; }
  int64_t Length(int64_t document) const override {
    return index_.document(document).length;
  }
  int64_t TrainedTokens(int64_t document) const override {
    return index_.document(document).num_trained;
  }
  std::string Name(int64_t document) const override {
    const IndexedDocument& row = index_.document(document);
    return row.number == 0 ? Path(row)
                           : absl::StrCat(Path(row), ":", row.number);
  }
  int64_t Vocab() const override { return tokenizer_->vocab(); }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary_.num_samples));
    const IndexedDocument& row = index_.document(document);
    EVENSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadIndexedBytes(Path(row), index_.file(row.file),
                                               row.offset, BytesToRead(row)));
    EVENSTEP_ASSIGN_OR_RETURN(const TextDocument text, Parse(row, bytes));
    EVENSTEP_ASSIGN_OR_RETURN(SampleTokens sample,
                              EncodeDocument(text, *tokenizer_, row.length));
    if (static_cast<int64_t>(sample.tokens.size()) != row.length) {
      return ChangedSinceIndexing(Name(document), "changed");
    }
    return sample;
  }

 private:
  std::string Path(const IndexedDocument& row) const {
    return absl::StrCat(root_, "/", index_.file_name(row.file));
  }

  // A file's first bytes are its first tokens; all else is read whole.
  int64_t BytesToRead(const IndexedDocument& row) const {
    return row.number == 0 && tokenizer_->is_bytes()
               ? std::min(row.bytes, row.length)
               : row.bytes;
  }

  absl::StatusOr<TextDocument> Parse(const IndexedDocument& row,
                                     const std::string& bytes) const {
    if (row.number == 0) return TextDocument{{bytes, Loss::kTrained, true}};
    absl::StatusOr<TextDocument> text = ParseJsonDocument(bytes);
    if (text.ok()) return text;
    return ChangedSinceIndexing(absl::StrCat(Path(row), ":", row.number),
                                "changed");
  }

  const std::string root_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const LengthIndex index_;
  const DatasetSummary summary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTextDataset(
    const DatasetOptions& options, absl::string_view path) {
  EVENSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                            OpenTokenizer(options.tokenizer));
  EVENSTEP_ASSIGN_OR_RETURN(const FileList list, ListFiles(path));
  EVENSTEP_ASSIGN_OR_RETURN(
      LengthIndex index,
      LoadOrBuildIndex(list, options, tokenizer->key(),
                       [&](IndexBuilder& builder) {
                         TextScan(list, options, *tokenizer, &builder).Run();
                         return absl::OkStatus();
                       }));
  return std::make_unique<TextDataset>(list.root, std::move(tokenizer),
                                       std::move(index));
}

absl::Status LookForText(absl::string_view path) {
  EVENSTEP_ASSIGN_OR_RETURN(const FileList list, ListFiles(path));
  if (!list.files.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "there are no files", list.num_links > 0
                                ? absl::StrCat(" but ", list.num_links,
                                               " links, which are not followed")
                                : std::string()));
}

}  // namespace evenstep::data
