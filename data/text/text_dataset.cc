#include "data/text/text_dataset.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "data/index/content_hash.h"
#include "data/index/index_cache.h"
#include "data/index/indexed_file.h"
#include "data/index/selection.h"
#include "data/sample_rules.h"
#include "data/text/file_list.h"
#include "data/text/foreign_json.h"
#include "data/text/jsonl.h"
#include "data/text/text_document.h"
#include "data/text/text_file.h"
#include "data/text/tokenizer.h"
#include "data/text/unpack.h"
#include "data/text/unpacked_records.h"

namespace evenstep::data {
namespace {

// JSON files without records that are read to tell whether they may be data.
constexpr int kMostJsonLookedAt = 1000;
// The size limit of a document that has to be read to count its tokens.
constexpr int64_t kMaxProseBytes = kMaxJsonLineBytes;

// Walks the listed files, and checks, measures and hashes their documents.
class TextScan {
 public:
  TextScan(const FileList& list, const Tokenizer& tokenizer,
           IndexBuilder* builder)
      : list_(list), tokenizer_(tokenizer), builder_(builder) {}

  void Run() {
    int64_t total = 0;
    for (const ListedFile& file : list_.files) total += file.bytes;
    builder_->SetTotalBytes(total);
    for (const ListedFile& file : list_.files) {
      if (builder_->stopped()) return;
      AddFile(file, Look(file));
    }
  }

 private:
  std::string Path(const ListedFile& file) const {
    return absl::StrCat(list_.root, "/", file.name);
  }

  TextFile Look(const ListedFile& file) const {
    TextFile kind;
    kind.problem = file.problem;
    if (kind.problem.empty() && file.bytes == 0) kind.problem = "empty";
    return kind.problem.empty() ? LookAtFile(Path(file), file.name) : kind;
  }

  void AddFile(const ListedFile& file, const TextFile& kind) {
    builder_->AddFile(file, static_cast<int64_t>(kind.packing));
    const int64_t done = builder_->bytes_done();
    if (!kind.problem.empty()) {
      builder_->AddBad(file.name, kind.problem);
    } else if (kind.layout == TextLayout::kJson) {
      AddJson(file);
    } else if (kind.layout != TextLayout::kProse) {
      AddRecords(file, kind);
    } else if (tokenizer_.is_bytes() && kind.packing == Packing::kNone) {
      AddBytes(file, kind);
    } else {
      AddProse(file, kind);
    }
    // What was not read, and what was unpacked.
    builder_->Advance(
        std::max<int64_t>(0, done + file.bytes - builder_->bytes_done()));
  }

  // Settings and the like; or data in a form that nobody can guess, which is
  // said where it was asked for by name.
  void AddJson(const ListedFile& file) {
    if (!list_.is_one_file) return builder_->LeaveOutJson();
    const absl::StatusOr<JsonShape> shape = ShapeOfFile(Path(file));
    if (!shape.ok()) {
      return builder_->AddBad(file.name, shape.status().message());
    }
    builder_->AddBad(
        file.name,
        absl::StrCat(WhyNoRecords(*shape),
                     "; or name the file .txt to train on it as plain text"));
  }

  // The file's size says how long its one document is.
  void AddBytes(const ListedFile& file, const TextFile& kind) {
    IndexedDocument row;
    row.offset = kind.mark_bytes;
    row.bytes = file.bytes - kind.mark_bytes;
    const absl::StatusOr<std::string> problem = ReadBytes(file, &row);
    if (!problem.ok()) {
      return builder_->AddBad(file.name, problem.status().message());
    }
    if (!problem->empty()) return builder_->AddBad(file.name, *problem);
    row.num_tokens = row.bytes == 0 ? 0 : row.bytes + 1;
    row.num_trained = row.bytes;
    builder_->AddDocument(file.name, row);
  }

  // Hashes and checks what a sample can hold of a file. Why it is no text;
  // empty: it is.
  absl::StatusOr<std::string> ReadBytes(const ListedFile& file,
                                        IndexedDocument* row) {
    EVENSTEP_ASSIGN_OR_RETURN(RangeReader reader,
                              RangeReader::Open(Path(file)));
    const int64_t end = row->offset + HashedBytes(*row);
    TextCheck check(/*contiguous=*/end == file.bytes);
    hasher_.Reset();
    for (int64_t at = row->offset; at < end && !builder_->stopped();) {
      EVENSTEP_ASSIGN_OR_RETURN(
          const absl::string_view block,
          reader.Read(at, std::min(RangeReader::kMostBytes, end - at)));
      hasher_.Add(block);
      check.Add(block);
      at += static_cast<int64_t>(block.size());
      builder_->Advance(static_cast<int64_t>(block.size()));
    }
    row->hash = hasher_.value();
    return check.Finish();
  }

  void AddProse(const ListedFile& file, const TextFile& kind) {
    auto text = ReadWholeUnpacked(Path(file), kMaxProseBytes);
    if (!text.ok()) return builder_->AddBad(file.name, text.status().message());
    const std::string problem = CheckWholeText(*text);
    if (!problem.empty()) return builder_->AddBad(file.name, problem);
    text->erase(0, static_cast<size_t>(kind.mark_bytes));
    if (text->empty()) return builder_->AddBad(file.name, "empty");
    IndexedDocument row;
    row.offset = kind.packing == Packing::kNone ? kind.mark_bytes : 0;
    row.bytes = static_cast<int64_t>(text->size());
    row.hash = HashContent(*text);
    Measure(file.name, row, {{*std::move(text), Loss::kTrained, true}});
  }

  void AddRecords(const ListedFile& file, const TextFile& kind) {
    const absl::Status status = ScanJsonRecords(
        Path(file), kind.layout,
        [&](const JsonLine& line) {
          if (kind.packing == Packing::kNone) {
            builder_->Advance(line.bytes);
          } else {
            builder_->Work(line.bytes);
          }
          if (!builder_->stopped()) AddRecord(file, line);
        },
        [&] { return !builder_->stopped(); });
    if (!status.ok()) builder_->AddBad(file.name, status.message());
  }

  void AddRecord(const ListedFile& file, const JsonLine& line) {
    const std::string name = absl::StrCat(file.name, ":", line.number);
    const absl::StatusOr<TextDocument> document = ParseJsonDocument(line);
    if (!document.ok()) {
      return builder_->AddBad(name, document.status().message());
    }
    IndexedDocument row;
    row.number = line.number;
    row.offset = line.offset;
    row.bytes = line.bytes;
    row.hash = HashContent(line.content);
    Measure(name, row, *document);
  }

  void Measure(const std::string& name, IndexedDocument row,
               const TextDocument& document) {
    const auto size = MeasureDocument(document, tokenizer_);
    if (!size.ok()) return builder_->AddBad(name, size.status().message());
    row.num_tokens = size->num_tokens;
    row.num_trained = size->num_trained;
    const bool masked = row.num_trained != row.num_tokens - 1;
    builder_->AddDocument(name, row,
                          masked ? size->trained_runs : std::vector<int64_t>());
  }

  const FileList& list_;
  const Tokenizer& tokenizer_;
  IndexBuilder* const builder_;
  ContentHasher hasher_;
};

std::string NameOf(const LengthIndex& index, const IndexedDocument& row) {
  const absl::string_view file = index.file_name(row.file);
  return row.number == 0 ? std::string(file)
                         : absl::StrCat(file, ":", row.number);
}

class TextDataset : public Dataset {
 public:
  TextDataset(std::string root, std::unique_ptr<Tokenizer> tokenizer,
              Selection selection)
      : root_(std::move(root)),
        tokenizer_(std::move(tokenizer)),
        selection_(std::move(selection)) {}

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
    return absl::StrCat(
        root_, "/", NameOf(selection_.index(), selection_.document(document)));
  }
  absl::Span<const std::string> BadSamples() const override {
    return selection_.notes();
  }
  std::vector<std::string> LeftOutJson(bool foreign,
                                       size_t most) const override {
    const LengthIndex& index = selection_.index();
    std::vector<std::string> notes;
    int num_read = 0;
    for (int64_t i = 0; i < index.header().num_files && notes.size() < most;
         ++i) {
      if (index.file(i).kind != kLeftOutJson) continue;
      if (foreign && ++num_read > kMostJsonLookedAt) break;
      const absl::string_view name = index.file_name(i);
      const auto shape = ShapeOfFile(absl::StrCat(root_, "/", name));
      if (!shape.ok() || (foreign && !HoldsForeignRecords(*shape))) continue;
      notes.push_back(absl::StrCat(name, ": ", WhyNoRecords(*shape)));
    }
    return notes;
  }
  uint64_t ContentHash(int64_t document) const override {
    return selection_.document(document).hash;
  }
  int64_t Vocab() const override { return tokenizer_->vocab(); }

  absl::StatusOr<SampleTokens> Read(int64_t document) const override {
    EVENSTEP_RETURN_IF_ERROR(CheckDocument(document, summary().num_samples));
    const IndexedDocument& row = selection_.document(document);
    const int64_t length = Length(document);
    EVENSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadBytes(document, length));
    EVENSTEP_ASSIGN_OR_RETURN(const TextDocument text, Parse(row, bytes));
    EVENSTEP_ASSIGN_OR_RETURN(SampleTokens sample,
                              EncodeDocument(text, *tokenizer_, length));
    if (static_cast<int64_t>(sample.tokens.size()) != length) {
      return ChangedSinceIndexing(Name(document), "changed");
    }
    return sample;
  }

 private:
  // What `length` tokens need of a document, unpacked.
  absl::StatusOr<std::string> ReadBytes(int64_t document,
                                        int64_t length) const {
    const IndexedDocument& row = selection_.document(document);
    const IndexedFile& file = selection_.index().file(row.file);
    const std::string path =
        absl::StrCat(root_, "/", selection_.index().file_name(row.file));
    if (static_cast<Packing>(file.kind) == Packing::kNone) {
      return ReadIndexedDocument({path, Name(document), file, row},
                                 BytesToRead(row, length));
    }
    absl::StatusOr<std::string> text = ReadPacked(row, path);
    if (!text.ok()) return text;
    EVENSTEP_RETURN_IF_ERROR(CheckContent(*text, Name(document), row));
    return text;
  }

  absl::StatusOr<std::string> ReadPacked(const IndexedDocument& row,
                                         const std::string& path) const {
    if (row.number > 0) {
      return unpacked_.Read(row.file, path, RecordLayoutOf(path), row.number);
    }
    absl::StatusOr<std::string> text = ReadWholeUnpacked(path, kMaxProseBytes);
    if (!text.ok()) return ChangedSinceIndexing(path, "changed");
    if (absl::StartsWith(*text, kUtf8Mark)) text->erase(0, kUtf8Mark.size());
    return text;
  }

  // A file's first bytes are its first tokens; all else is read whole.
  int64_t BytesToRead(const IndexedDocument& row, int64_t length) const {
    return row.number == 0 && tokenizer_->is_bytes()
               ? std::min(row.bytes, length)
               : row.bytes;
  }

  static absl::StatusOr<TextDocument> Parse(const IndexedDocument& row,
                                            const std::string& bytes) {
    if (row.number == 0) return TextDocument{{bytes, Loss::kTrained, true}};
    return ParseJsonDocument(bytes);
  }

  const std::string root_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const Selection selection_;
  mutable UnpackedRecords unpacked_;
};

// How to write a path whose brackets are meant as they are, if it is there up
// to the part that has the first one.
std::string BracketHint(absl::string_view path) {
  const size_t bracket = path.find('[');
  if (bracket == absl::string_view::npos) return "";
  const std::string literal(path.substr(0, path.find('/', bracket)));
  std::error_code error;
  if (!std::filesystem::exists(literal, error)) return "";
  return absl::StrCat(
      "; [ ] is a set of characters: write [[] for a bracket, "
      "as in ",
      absl::StrReplaceAll(path, {{"[", "[[]"}}));
}

// "there are no files; left out: 2 hidden entries".
std::string NoFiles(const FileList& list, absl::string_view path) {
  const std::string left_out = DescribeLeftOut(list.left_out);
  return absl::StrCat("there are no files",
                      left_out.empty() ? "" : "; left out: ", left_out,
                      BracketHint(path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTextDataset(
    const DatasetOptions& options, absl::string_view path) {
  EVENSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                            OpenTokenizer(options.tokenizer));
  EVENSTEP_ASSIGN_OR_RETURN(const FileList list, ListFiles(path));
  if (list.files.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no sample is left in ", options.source, ": ", NoFiles(list, path)));
  }
  EVENSTEP_ASSIGN_OR_RETURN(
      Selection selection,
      OpenSelection(list, options, tokenizer->key(),
                    [&](IndexBuilder& builder) {
                      TextScan(list, *tokenizer, &builder).Run();
                      return absl::OkStatus();
                    },
                    {.name =
                         [](const LengthIndex& index, int64_t row) {
                           return NameOf(index, index.document(row));
                         },
                     .judge = JudgeTokens(options, /*vocab=*/0)}));
  return std::make_unique<TextDataset>(list.root, std::move(tokenizer),
                                       std::move(selection));
}

absl::Status LookForText(absl::string_view path) {
  EVENSTEP_ASSIGN_OR_RETURN(const FileList list, ListFiles(path));
  if (!list.files.empty()) return absl::OkStatus();
  return absl::NotFoundError(NoFiles(list, path));
}

}  // namespace evenstep::data
