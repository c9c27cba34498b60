#include "data/megatron/megatron_dataset.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "data/index/content_sampler.h"
#include "data/index/index_cache.h"
#include "data/index/indexed_file.h"
#include "data/megatron/megatron_index.h"
#include "data/text/file_list.h"

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

absl::Status Scan(const FileList& pair, const DatasetOptions& options,
                  IndexBuilder& builder) {
  const std::string path = absl::StrCat(pair.root, "/", pair.files[0].name);
  EVENSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadWholeFile(path, kMaxIndexBytes));
  const absl::StatusOr<MegatronIndex> index = MegatronIndex::Parse(bytes);
  if (!index.ok()) return InFile(path, index.status());
  const ListedFile& data = pair.files[1];
  builder.AddFile(pair.files[0]);
  builder.AddContent(bytes);
  builder.AddFile(data);
  EVENSTEP_RETURN_IF_ERROR(
      ContentSampler({data.bytes})
          .AddFile(
              absl::StrCat(pair.root, "/", data.name), data.bytes,
              [&](absl::string_view block) { builder.AddContent(block); }));
  const int64_t token_bytes = MegatronTokenBytes(index->header().type);
  for (int64_t i = 0; i < index->num_documents(); ++i) {
    const MegatronDocument document = index->Document(i, data.bytes);
    const std::string name = absl::StrCat("document ", i, " of ", data.name);
    if (!document.problem.empty()) {
      builder.AddBad(name, document.problem);
      continue;
    }
    IndexedDocument place;
    place.number = i + 1;
    place.offset = document.offset;
    place.bytes = document.num_tokens * token_bytes;
    const int64_t length = std::min(document.num_tokens, options.max_length);
    builder.AddDocument(
        name, place, {document.num_tokens, std::max<int64_t>(length, 1) - 1});
  }
  return absl::OkStatus();
}

class MegatronDataset : public Dataset {
 public:
  MegatronDataset(std::string path, MegatronType type, LengthIndex index)
      : path_(std::move(path)),
        type_(type),
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
    return absl::StrCat("document ", index_.document(document).number - 1,
                        " of ", path_);
  }
  int64_t Vocab() const override { return 0; }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary_.num_samples));
    const IndexedDocument& row = index_.document(document);
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string bytes,
        ReadIndexedBytes(path_, index_.file(row.file), row.offset,
                         row.length * MegatronTokenBytes(type_)));
    auto tokens = DecodeMegatronTokens(type_, bytes);
    if (!tokens.ok()) return InFile(Name(document), tokens.status());
    return TrainAll(*std::move(tokens));
  }

 private:
  const std::string path_;
  const MegatronType type_;
  const LengthIndex index_;
  const DatasetSummary summary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenMegatronDataset(
    const DatasetOptions& options, absl::string_view prefix) {
  EVENSTEP_ASSIGN_OR_RETURN(const FileList pair, ListPair(prefix));
  EVENSTEP_ASSIGN_OR_RETURN(
      LengthIndex index, LoadOrBuildIndex(pair, options, /*tokenizer_key=*/0,
                                          [&](IndexBuilder& builder) {
                                            return Scan(pair, options, builder);
                                          }));
  // The index keeps no token type; an unchanged file has the one it had.
  const std::string path = absl::StrCat(pair.root, "/", pair.files[0].name);
  EVENSTEP_ASSIGN_OR_RETURN(
      const std::string start,
      ReadIndexedBytes(path, index.file(0), 0, kMegatronHeaderBytes));
  const absl::StatusOr<MegatronHeader> header = ParseMegatronHeader(start);
  if (!header.ok()) return InFile(path, header.status());
  return std::make_unique<MegatronDataset>(
      absl::StrCat(pair.root, "/", pair.files[1].name), header->type,
      std::move(index));
}

absl::Status LookForMegatron(absl::string_view prefix) {
  return ListPair(prefix).status();
}

}  // namespace evenstep::data
