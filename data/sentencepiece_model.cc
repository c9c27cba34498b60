#include "data/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <utility>

namespace evenstep::data {

struct SentencePieceModel::Library {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceModel::SentencePieceModel(std::unique_ptr<Library> library)
    : library_(std::move(library)) {}
SentencePieceModel::~SentencePieceModel() = default;

std::unique_ptr<SentencePieceModel> SentencePieceModel::Load(
    std::string_view bytes, std::string* error) {
  auto library = std::make_unique<Library>();
  const auto status = library->processor.LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    *error = status.ToString();
    return nullptr;
  }
  return std::unique_ptr<SentencePieceModel>(
      new SentencePieceModel(std::move(library)));
}

std::string SentencePieceModel::Encode(std::string_view text,
                                       std::vector<int>* ids) const {
  const auto status = library_->processor.Encode(text, ids);
  return status.ok() ? std::string() : status.ToString();
}

std::string SentencePieceModel::Decode(const std::vector<int>& ids,
                                       std::string* text) const {
  const auto status = library_->processor.Decode(ids, text);
  return status.ok() ? std::string() : status.ToString();
}

int SentencePieceModel::num_pieces() const {
  return library_->processor.GetPieceSize();
}

int SentencePieceModel::end_piece() const {
  return library_->processor.eos_id();
}

}  // namespace evenstep::data
