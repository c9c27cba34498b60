#include "data/megatron/megatron_dataset.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "data/index/content_hash.h"
#include "data/index/index_cache.h"
#include "data/index/indexed_file.h"
#include "data/index/selection.h"
#include "data/megatron/megatron_index.h"
#include "data/text/file_list.h"
#include "data/text/text_document.h"

namespace evenstep::data {
namespace {

constexpr int64_t kMaxIndexBytes = int64_t{1} << 36;

// The index file first, then the data file, whose row documents refer to.
absl::StatusOr<FileList> ListPair(absl::string_view prefix) {
  EVENSTEP_ASSIGN_OR_RETURN(FileList pair,
                            ListFiles(absl::StrCat(prefix, ".idx")));
  EVENSTEP_ASSIGN_OR_RETURN(FileList data,
                            ListFiles(absl::StrCat(prefix, ".bin")));
  if (pair.files.size() != 1 || data.files.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, ".idx and .bin are not one file each"));
  }
  pair.files.push_back(std::move(data.files[0]));
  for (const ListedFile& file : pair.files) {
    if (file.problem.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(pair.root, "/", file.name, ": ", file.problem));
  }
  return pair;
}

absl::Status InFile(absl::string_view path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

std::string NameOf(int64_t number, absl::string_view file) {
  return absl::StrCat("document ", number - 1, " of ", file);
}

// Reads all documents of a pair, and adds them to an index.
class MegatronScan {
 public:
  MegatronScan(const FileList& pair, IndexBuilder* builder)
      : idx_(pair.files[0]),
        bin_(pair.files[1]),
        idx_path_(absl::StrCat(pair.root, "/", idx_.name)),
        bin_path_(absl::StrCat(pair.root, "/", bin_.name)),
        builder_(*builder) {}

  absl::Status Run() {
    EVENSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadWholeFile(idx_path_, kMaxIndexBytes));
    const absl::StatusOr<MegatronIndex> index = MegatronIndex::Parse(bytes);
    if (!index.ok()) return InFile(idx_path_, index.status());
    EVENSTEP_ASSIGN_OR_RETURN(RangeReader reader, RangeReader::Open(bin_path_));
    type_ = index->header().type;
    builder_.SetVariant(static_cast<int64_t>(type_));
    builder_.SetTotalBytes(bin_.bytes);
    builder_.AddFile(idx_);
    builder_.AddContent(bytes);
    builder_.AddFile(bin_);
    for (int64_t i = 0; i < index->num_documents() && !builder_.stopped();
         ++i) {
      AddDocument(i + 1, index->Document(i, bin_.bytes), &reader);
    }
    return absl::OkStatus();
  }

 private:
  void AddDocument(int64_t number, const MegatronDocument& document,
                   RangeReader* reader) {
    const std::string name = NameOf(number, bin_.name);
    if (!document.problem.empty()) {
      return builder_.AddBad(name, document.problem);
    }
    IndexedDocument row;
    row.number = number;
    row.offset = document.offset;
    row.bytes = document.num_tokens * MegatronTokenBytes(type_);
    row.num_tokens = document.num_tokens;
    row.num_trained = std::max<int64_t>(document.num_tokens, 1) - 1;
    const absl::Status read = ReadContent(reader, &row);
    if (!read.ok()) return builder_.AddBad(name, read.message());
    builder_.AddDocument(name, row);
  }

  // Its largest token and its hash.
  absl::Status ReadContent(RangeReader* reader, IndexedDocument* row) {
    const int64_t token_bytes = MegatronTokenBytes(type_);
    hasher_.Reset();
    for (int64_t at = row->offset; at < row->offset + row->bytes;) {
      const int64_t bytes =
          std::min(RangeReader::kMostBytes, row->offset + row->bytes - at);
      EVENSTEP_ASSIGN_OR_RETURN(const absl::string_view block,
                                reader->Read(at, bytes));
      EVENSTEP_ASSIGN_OR_RETURN(
          const LargestToken largest,
          FindLargestToken(type_, block, (at - row->offset) / token_bytes));
      if (largest.id > row->largest_token) {
        row->largest_token = largest.id;
        row->largest_token_at = largest.at;
      }
      hasher_.Add(block);
      builder_.Advance(bytes);
      at += bytes;
    }
    row->hash = hasher_.value();
    return absl::OkStatus();
  }

  const ListedFile& idx_;
  const ListedFile& bin_;
  const std::string idx_path_;
  const std::string bin_path_;
  IndexBuilder& builder_;
  ContentHasher hasher_;
  MegatronType type_ = MegatronType::kInt32;
};

class MegatronDataset : public Dataset {
 public:
  MegatronDataset(std::string path, Selection selection)
      : path_(std::move(path)),
        selection_(std::move(selection)),
        type_(static_cast<MegatronType>(selection_.index().header().variant)) {}

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
    return NameOf(selection_.document(document).number, path_);
  }
  absl::Span<const std::string> BadSamples() const override {
    return selection_.notes();
  }
  uint64_t ContentHash(int64_t document) const override {
    return selection_.document(document).hash;
  }
  int64_t Vocab() const override { return 0; }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary().num_samples));
    const IndexedDocument& row = selection_.document(document);
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string bytes,
        ReadIndexedDocument(
            {path_, Name(document), selection_.index().file(row.file), row},
            Length(document) * MegatronTokenBytes(type_)));
    auto tokens = DecodeMegatronTokens(type_, bytes);
    if (!tokens.ok()) return InFile(Name(document), tokens.status());
    return TrainAll(*std::move(tokens));
  }

 private:
  const std::string path_;
  const Selection selection_;
  const MegatronType type_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenMegatronDataset(
    const DatasetOptions& options, absl::string_view prefix) {
  EVENSTEP_ASSIGN_OR_RETURN(const FileList pair, ListPair(prefix));
  const std::string& bin = pair.files[1].name;
  EVENSTEP_ASSIGN_OR_RETURN(
      Selection selection,
      OpenSelection(pair, options, /*tokenizer_key=*/0,
                    [&](IndexBuilder& builder) {
                      return MegatronScan(pair, &builder).Run();
                    },
                    {.name =
                         [&](const LengthIndex& index, int64_t row) {
                           return NameOf(index.document(row).number, bin);
                         },
                     .judge = JudgeTokens(options, options.vocab),
                     .all_files_hold_documents = false}));
  return std::make_unique<MegatronDataset>(absl::StrCat(pair.root, "/", bin),
                                           std::move(selection));
}

absl::Status LookForMegatron(absl::string_view prefix) {
  return ListPair(prefix).status();
}

}  // namespace evenstep::data
