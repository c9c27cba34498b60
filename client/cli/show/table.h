#ifndef EVENSTEP_CLIENT_CLI_SHOW_TABLE_H_
#define EVENSTEP_CLIENT_CLI_SHOW_TABLE_H_

// Columns of text, as wide as their widest cell. A cell may carry a colour that
// does not count as width. Pure; no thread-safety.

#include <string>
#include <vector>

#include "evenstep/job.h"

namespace evenstep::cli {

enum class Colour { kNone, kGreen, kRed, kYellow, kBold };

struct Cell {
  Cell(std::string text) : text(std::move(text)) {}  // NOLINT: a plain cell
  Cell(const char* text) : text(text) {}             // NOLINT: a plain cell
  Cell(std::string text, Colour colour)
      : text(std::move(text)), colour(colour) {}
  std::string text;
  Colour colour = Colour::kNone;
};

using Row = std::vector<Cell>;

enum class ColourMode { kPlain, kColour };

std::string Paint(const std::string& text, Colour colour, ColourMode mode);
// Two spaces between columns, none at the end of a line; cells are made
// printable.
std::string FormatTable(const std::vector<Row>& rows, ColourMode mode);

// A state in its colour: green is good, red failed, yellow not yet.
Cell StateCell(client::JobState state);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_TABLE_H_
