#ifndef EVENSTEP_CLIENT_CLI_BAD_SAMPLES_H_
#define EVENSTEP_CLIENT_CLI_BAD_SAMPLES_H_

// The names of bad samples, for people: the library would log them, and a log
// line is no answer. Called by the commands that open data. Reads the data.

#include <cstdint>
#include <string>

#include "data/dataset.h"

namespace evenstep::cli {

// "NAME: why; NAME: why" of the first of the `num_bad` bad samples of data that
// were opened with `options`. Opens them again, which is quick once there is an
// index.
std::string NameBadSamples(data::DatasetOptions options, int64_t num_bad);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_BAD_SAMPLES_H_
