#include "data/text/tokenizer.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/foreign_file.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "data/text/sentencepiece_model.h"

namespace evenstep::data {
namespace {

constexpr int64_t kMaxModelBytes = int64_t{1} << 28;

absl::Status Outside(int32_t token, int32_t vocab) {
  return absl::OutOfRangeError(
      absl::StrCat("token ", token, " is not in the vocabulary of ", vocab));
}

class Bytes : public Tokenizer {
 public:
  absl::Status Encode(absl::string_view text,
                      std::vector<int32_t>* tokens) const override {
    tokens->reserve(tokens->size() + text.size() + 1);
    for (const char c : text) tokens->push_back(static_cast<unsigned char>(c));
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Count(absl::string_view text) const override {
    return static_cast<int64_t>(text.size());
  }

  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= kByteVocab) return Outside(token, kByteVocab);
      if (token != kEndToken) text.push_back(static_cast<char>(token));
    }
    return text;
  }

  int32_t end_token() const override { return kEndToken; }
  int32_t vocab() const override { return kByteVocab; }
  uint64_t key() const override { return 0; }
  bool is_bytes() const override { return true; }
};

class SentencePieces : public Tokenizer {
 public:
  SentencePieces(std::unique_ptr<SentencePieceModel> model, uint64_t key)
      : model_(std::move(model)), key_(key) {}

  absl::Status Encode(absl::string_view text,
                      std::vector<int32_t>* tokens) const override {
    return model_->Encode(text, tokens);
  }

  absl::StatusOr<int64_t> Count(absl::string_view text) const override {
    std::vector<int32_t> tokens;
    EVENSTEP_RETURN_IF_ERROR(model_->Encode(text, &tokens));
    return static_cast<int64_t>(tokens.size());
  }

  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> tokens) const override {
    std::vector<int32_t> ids;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocab()) return Outside(token, vocab());
      if (token != end_token()) ids.push_back(token);
    }
    return model_->Decode(ids);
  }

  int32_t end_token() const override { return model_->end_piece(); }
  int32_t vocab() const override { return model_->num_pieces(); }
  uint64_t key() const override { return key_; }

 private:
  const std::unique_ptr<SentencePieceModel> model_;
  const uint64_t key_;
};

// What is often given in the place of a model, by name.
absl::Status CheckFirstBytes(const std::string& path, absl::string_view bytes) {
  std::string what = DescribeForeignFile(bytes.substr(0, kForeignFileBytes));
  if (bytes.empty()) what = "empty";
  if (absl::StartsWith(bytes, "{")) {
    what =
        "JSON, as Hugging Face's tokenizer.json is; take the tokenizer.model "
        "beside it, or, if there is none, tokenize the data with the model's "
        "own tokenizer and train on megatron:PREFIX (docs/data.md)";
  }
  if (what.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer ", path, " is not a SentencePiece model: it is ", what));
}

}  // namespace

absl::Status LookForTokenizer(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(
        absl::StrCat("tokenizer ", path, ": no such file"));
  }
  if (status.type() == std::filesystem::file_type::directory) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer ", path,
                     ": a folder, where a SentencePiece model is wanted"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return ErrnoStatus(errno, "cannot open tokenizer", path);
  std::string bytes(kForeignFileBytes, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return CheckFirstBytes(path, bytes);
}

std::unique_ptr<Tokenizer> ByteTokenizer() { return std::make_unique<Bytes>(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path) {
  if (path.empty()) return ByteTokenizer();
  EVENSTEP_RETURN_IF_ERROR(LookForTokenizer(path));
  EVENSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadWholeFile(path, kMaxModelBytes));
  auto loaded = SentencePieceModel::Load(bytes);
  if (absl::IsInvalidArgument(loaded.status())) {
    // Its parser names a line of its own code.
    const bool is_parser = absl::StrContains(loaded.status().message(), ".cc(");
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer ", path, " is not a SentencePiece model: ",
        is_parser ? "its bytes are cut short, damaged, or of something else"
                  : loaded.status().message()));
  }
  if (!loaded.ok()) return loaded.status();
  std::unique_ptr<SentencePieceModel> model = *std::move(loaded);
  if (model->end_piece() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer ", path, " has no end piece; train it with an --eos_id"));
  }
  Fnv1a64 key;
  key.AddString(bytes);
  return std::make_unique<SentencePieces>(std::move(model), key.value());
}

}  // namespace evenstep::data
