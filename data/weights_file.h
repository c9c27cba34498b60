#ifndef EVENSTEP_DATA_WEIGHTS_FILE_H_
#define EVENSTEP_DATA_WEIGHTS_FILE_H_

// Which file of a path holds a model's weights. Used wherever a user names
// weights: `model.weights` and `evenstep generate`. Looks at names alone;
// stateless.

#include <string>

#include "absl/status/statusor.h"

namespace evenstep::data {

// What trained weights are called in their folder.
inline constexpr char kWeightsName[] = "model.safetensors";

// The path itself, or of a folder its model.safetensors. NOT_FOUND: the folder
// has none; the sentence names what it has instead. FAILED_PRECONDITION: the
// weights are in several files, or the path is one of them.
absl::StatusOr<std::string> SafetensorsFileOf(const std::string& path);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_WEIGHTS_FILE_H_
