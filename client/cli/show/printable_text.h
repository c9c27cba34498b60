#ifndef EVENSTEP_CLIENT_CLI_SHOW_PRINTABLE_TEXT_H_
#define EVENSTEP_CLIENT_CLI_SHOW_PRINTABLE_TEXT_H_

// Text that others wrote - what a model makes, names in files, messages of
// processes - as a terminal can be given it. Everything that goes to stderr
// passes through here. Pure function.

#include <string>

#include "absl/strings/string_view.h"

namespace evenstep::cli {

// Invalid UTF-8 becomes '?'. Control characters but tabs and line ends are
// written out, as \x1b, and so are those of ISO 6429 (\u009b begins what
// \x1b[ does) and those that turn the direction of text, as \u202e.
std::string PrintableText(absl::string_view text);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_PRINTABLE_TEXT_H_
