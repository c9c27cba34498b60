#ifndef EVENSTEP_CLIENT_PLAN_SVG_H_
#define EVENSTEP_CLIENT_PLAN_SVG_H_

// Writes one inline SVG picture, piece by piece. Colours come from classes of
// the page's style sheet, so that pictures follow light and dark. Coordinates
// are in units of the view box, one decimal. Not thread-safe.

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace evenstep::plan {

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Text as HTML: & < > and quotes are escaped.
std::string EscapeHtml(absl::string_view text);

// About how wide a label of the page's style is, in units of the view box;
// rather too much.
double LabelWidth(absl::string_view text);

// Places labels on one line, from left to right, so that none is cut at the
// picture's edge or stands over another. Not thread-safe.
class LabelLine {
 public:
  LabelLine(double left, double right) : free_from_(left), right_(right) {}

  // Where the middle of a label goes whose thing is at `x`: moved inwards at
  // the edges. Nothing if there is no room for it.
  std::optional<double> Place(double x, absl::string_view text);

 private:
  double free_from_;
  const double right_;
};

class Svg {
 public:
  // `label` tells what the picture shows to those who cannot see it.
  Svg(double width, double height, absl::string_view label);

  // `tooltip` may be empty. `style_class` is one or more class names.
  void Rect(const Box& box, absl::string_view style_class,
            absl::string_view tooltip = "");
  void Line(double x1, double y1, double x2, double y2,
            absl::string_view style_class);
  // `anchor`: start, middle or end.
  void Text(double x, double y, absl::string_view anchor,
            absl::string_view text, absl::string_view style_class = "");

  std::string Finish() &&;

 private:
  std::string svg_;
};

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_SVG_H_
