#ifndef EVENSTEP_CLIENT_PLAN_COLUMN_CHART_H_
#define EVENSTEP_CLIENT_PLAN_COLUMN_CHART_H_

// The report's other pictures: columns side by side (histograms, memory per
// rank) and bars one below the other (step times). Pure functions.

#include <string>
#include <vector>

namespace evenstep::plan {

struct Column {
  double value = 0;
  std::string label;  // below the column; may be empty
  std::string tooltip;
  std::string style_class;
  std::string text;  // on top of the column; may be empty
};

struct ColumnChartOptions {
  std::string title;
  std::string axis;  // what the columns stand for
  double width = 360;
  double height = 150;
  // Where the value axis ends; 0: at the highest column.
  double most = 0;
  double line = 0;  // across, with line_label; 0: none
  std::string line_label;
  enum class Unit { kCount, kPercent } unit = Unit::kCount;
};

std::string ColumnChart(const std::vector<Column>& columns,
                        const ColumnChartOptions& options);

struct Bar {
  std::string label;
  double value = 0;
  std::string text;  // at its end
  std::string style_class;
};

// `line` is a value that is marked across all bars; 0: none.
std::string BarChart(const std::vector<Bar>& bars, double line,
                     const std::string& line_label, const std::string& title);

}  // namespace evenstep::plan

#endif  // EVENSTEP_CLIENT_PLAN_COLUMN_CHART_H_
