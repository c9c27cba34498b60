#include "client/plan/timeline_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plan/axis.h"
#include "client/plan/plan_table.h"
#include "client/plan/svg.h"

namespace evenstep::plan {
namespace {

using planner::MicroBatch;
using planner::Plan;
using planner::PlanRequest;
using planner::SimulatedSpan;
using planner::SimulatedStep;

constexpr double kLeft = 44;
constexpr double kRight = 104;  // room for the waiting of each rank
constexpr double kTop = 8;
constexpr double kBottom = 26;
constexpr double kWidth = 1140;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr size_t kMaxNodeLines = 16;
constexpr int kMaxColours = 10;
constexpr int kCellColumns = 300;
constexpr int kCellRows = 64;

double PlotHeight(int num_ranks) {
  if (num_ranks > kMaxDrawnRanks) return kCellRows * 5;
  return std::clamp(num_ranks * 18.0, 72.0, 300.0);
}

class Timeline {
 public:
  Timeline(const PlanRequest& request, const Plan& plan,
           const SimulatedStep& step, const TimelineScale& scale)
      : request_(request),
        plan_(plan),
        step_(step),
        scale_(scale),
        num_ranks_(request.cluster.num_ranks()),
        height_(PlotHeight(num_ranks_)),
        svg_(kWidth, kTop + height_ + kBottom,
             absl::StrCat("Timeline of ", num_ranks_, " ranks")) {}

  std::string Draw() && {
    svg_.Rect({kLeft, kTop, X(step_.step_ns) - kLeft, height_}, "waiting",
              "waiting");
    if (num_ranks_ > kMaxDrawnRanks ||
        plan_.micro_batches.size() > kMaxDrawnMicroBatches) {
      DrawCells();
    } else {
      DrawBoxes();
    }
    DrawStepEnd();
    DrawNodes();
    DrawTimeAxis();
    DrawRankAxis();
    DrawWaiting();
    return std::move(svg_).Finish();
  }

 private:
  // Later than the end of the axis is at its end.
  double X(int64_t ns) const {
    const auto end_ns =
        static_cast<double>(std::max<int64_t>(1, scale_.end_ns));
    return kLeft + kPlotWidth * std::min(1.0, static_cast<double>(ns) / end_ns);
  }
  double Y(double rank) const { return kTop + height_ * rank / num_ranks_; }

  std::string Describe(const MicroBatch& batch, const SimulatedSpan& span,
                       int64_t longest_wait_ns) const {
    const int last = batch.first_rank + batch.degree - 1;
    std::string ranks = absl::StrCat("rank ", last);
    if (batch.degree > 1) {
      ranks = absl::StrCat("ranks ", batch.first_rank, "-", last, " (degree ",
                           batch.degree, ")");
    }
    return absl::StrCat(
        "Micro-batch ", span.micro_batch, " on ", ranks, "\n",
        batch.samples.size(),
        batch.samples.size() == 1 ? " sample, " : " samples, ",
        WithCommas(batch.padded_tokens), " tokens, ",
        WithCommas(batch.padded_tokens / batch.degree), " a rank\n",
        FormatTime(Seconds(span.end_ns - span.start_ns)), " from ",
        FormatTime(Seconds(span.start_ns)), "; longest wait of a rank ",
        FormatTime(Seconds(longest_wait_ns)));
  }

  static double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

  // Spans of a micro-batch stand together, one per rank of its block.
  void DrawBoxes() {
    for (size_t i = 0; i < step_.timeline.size();) {
      const SimulatedSpan& span = step_.timeline[i];
      const MicroBatch& batch = plan_.micro_batches[span.micro_batch];
      int64_t longest_wait_ns = 0;
      for (int k = 0; k < batch.degree; ++k) {
        longest_wait_ns =
            std::max(longest_wait_ns, step_.timeline[i + k].waiting_ns);
      }
      i += batch.degree;
      if (span.start_ns >= scale_.end_ns) continue;
      const double x = X(span.start_ns);
      const double y = Y(batch.first_rank);
      svg_.Rect({x, y, std::max(0.3, X(span.end_ns) - x),
                 Y(batch.first_rank + batch.degree) - y},
                absl::StrCat("box ", DegreeClass(scale_.degrees, batch.degree)),
                Describe(batch, span, longest_wait_ns));
    }
  }

  struct Cell {
    double busy = 0;  // share of its area
    int degree = 0;   // that fills most of it
    bool operator==(const Cell&) const = default;
  };

  // Boxes without end: cells of some ranks by some time, runs of equal ones
  // joined.
  void DrawCells() {
    const int rows = std::min(kCellRows, num_ranks_);
    const double cell_ns = static_cast<double>(std::max<int64_t>(
                               1, std::min(step_.step_ns, scale_.end_ns))) /
                           kCellColumns;
    for (int row = 0; row < rows; ++row) {
      const int first = static_cast<int>(int64_t{row} * num_ranks_ / rows);
      const int end = static_cast<int>(int64_t{row + 1} * num_ranks_ / rows);
      const std::vector<Cell> cells = CellsOf(first, end, cell_ns);
      for (int column = 0; column < kCellColumns;) {
        int next = column + 1;
        while (next < kCellColumns && cells[next] == cells[column]) ++next;
        if (cells[column].busy > 0) {
          DrawCell(cells[column], first, end, column * cell_ns, next * cell_ns);
        }
        column = next;
      }
    }
  }

  std::vector<Cell> CellsOf(int first, int end, double cell_ns) {
    std::vector<std::vector<double>> filled(
        kCellColumns, std::vector<double>(scale_.degrees.size(), 0));
    const double end_ns = cell_ns * kCellColumns;
    for (const SimulatedSpan& span : SpansByRank(first, end)) {
      if (static_cast<double>(span.start_ns) >= end_ns) continue;
      const int degree = plan_.micro_batches[span.micro_batch].degree;
      const size_t colour = IndexOf(degree);
      const int begin_column = Column(span.start_ns, cell_ns);
      const int end_column = Column(span.end_ns, cell_ns);
      for (int column = begin_column; column <= end_column; ++column) {
        const double from =
            std::max(static_cast<double>(span.start_ns), column * cell_ns);
        const double to =
            std::min(static_cast<double>(span.end_ns), (column + 1) * cell_ns);
        filled[column][colour] += std::max(0.0, to - from);
      }
    }
    std::vector<Cell> cells(kCellColumns);
    const double area = cell_ns * (end - first);
    for (int column = 0; column < kCellColumns; ++column) {
      double busy = 0;
      for (double ns : filled[column]) busy += ns;
      const auto most =
          std::max_element(filled[column].begin(), filled[column].end());
      // Tenths, so that runs of like cells join.
      cells[column].busy = std::round(10 * busy / area) / 10;
      cells[column].degree = scale_.degrees[most - filled[column].begin()];
    }
    return cells;
  }

  static int Column(int64_t ns, double cell_ns) {
    return std::clamp(static_cast<int>(static_cast<double>(ns) / cell_ns), 0,
                      kCellColumns - 1);
  }

  size_t IndexOf(int degree) const {
    return std::lower_bound(scale_.degrees.begin(), scale_.degrees.end(),
                            degree) -
           scale_.degrees.begin();
  }

  std::vector<SimulatedSpan> SpansByRank(int first, int end) {
    if (spans_by_rank_.empty()) {
      spans_by_rank_.resize(num_ranks_);
      for (const SimulatedSpan& span : step_.timeline) {
        spans_by_rank_[span.rank].push_back(span);
      }
    }
    std::vector<SimulatedSpan> spans;
    for (int rank = first; rank < end; ++rank) {
      spans.insert(spans.end(), spans_by_rank_[rank].begin(),
                   spans_by_rank_[rank].end());
    }
    return spans;
  }

  void DrawCell(const Cell& cell, int first, int end, double from_ns,
                double to_ns) {
    const double x = X(std::llround(from_ns));
    svg_.Rect({x, Y(first), X(std::llround(to_ns)) - x, Y(end) - Y(first)},
              absl::StrCat(DegreeClass(scale_.degrees, cell.degree), " o",
                           std::lround(cell.busy * 10)),
              absl::StrFormat("Ranks %d-%d, mostly degree %d, %.0f%% busy",
                              first, end - 1, cell.degree, cell.busy * 100));
  }

  // The gradient reduction and the optimizer: all ranks together.
  void DrawStepEnd() {
    const int64_t fixed_ns =
        std::min(step_.step_ns, request_.time.step_fixed_ns);
    const int64_t start_ns = step_.step_ns - fixed_ns;
    if (fixed_ns == 0 || start_ns >= scale_.end_ns) return;
    const double x = X(start_ns);
    svg_.Rect({x, kTop, X(step_.step_ns) - x, height_}, "fixed",
              absl::StrCat("Gradient reduction and optimizer, ",
                           FormatTime(Seconds(fixed_ns))));
  }

  void DrawNodes() {
    const auto& nodes = request_.cluster.ranks_per_node;
    if (nodes.size() > kMaxNodeLines) return;
    int rank = 0;
    for (size_t i = 0; i + 1 < nodes.size(); ++i) {
      rank += nodes[i];
      svg_.Line(kLeft - 4, Y(rank), X(step_.step_ns), Y(rank), "node");
    }
  }

  void DrawTimeAxis() {
    const double bottom = kTop + height_;
    double right = kLeft + kPlotWidth;
    if (step_.step_ns > scale_.end_ns) {
      const std::string cut =
          absl::StrCat("cut off; ends at ", FormatTime(Seconds(step_.step_ns)));
      svg_.Text(right, bottom + 17, "end", cut, "cut");
      right -= LabelWidth(cut) + 8;
    }
    LabelLine labels(0, right);
    for (const Tick& tick : RoundTicks(Seconds(scale_.end_ns), 8)) {
      const double x = X(std::llround(tick.value * 1e9));
      const std::string text = tick.label + " s";
      svg_.Line(x, bottom, x, bottom + 4, "axis");
      // Moved far from its tick a label would lie.
      if (x > right + 4) continue;
      const auto middle = labels.Place(x, text);
      if (middle.has_value()) {
        svg_.Text(*middle, bottom + 17, "middle", text, "label");
      }
    }
    svg_.Line(kLeft, bottom, kLeft + kPlotWidth, bottom, "axis");
    if (scale_.bound_ns == 0) return;
    const double x = X(scale_.bound_ns);
    svg_.Line(x, kTop - 6, x, bottom + 4, "bound");
  }

  void DrawRankAxis() {
    const double step = num_ranks_ > 1 ? num_ranks_ / 4.0 : 1;
    for (double rank = 0; rank < num_ranks_; rank += std::max(1.0, step)) {
      const int shown = static_cast<int>(rank);
      const double half = num_ranks_ <= 16 ? Y(0.5) - Y(0) : 0;
      svg_.Text(kLeft - 8, Y(shown) + half + (half > 0 ? 4 : 9), "end",
                absl::StrCat(shown), "label");
    }
  }

  // A bar per rank, or per some ranks: the share of the step that they wait.
  void DrawWaiting() {
    const double left = kWidth - kRight + 14;
    const double width = kRight - 18;
    svg_.Line(left, kTop, left, kTop + height_, "axis");
    svg_.Text(left, kTop + height_ + 17, "start", "waiting", "label");
    const int rows = std::min(num_ranks_, kMaxDrawnRanks);
    for (int row = 0; row < rows; ++row) {
      const int first = static_cast<int>(int64_t{row} * num_ranks_ / rows);
      const int end = static_cast<int>(int64_t{row + 1} * num_ranks_ / rows);
      double waiting_ns = 0;
      for (int rank = first; rank < end; ++rank) {
        waiting_ns += static_cast<double>(step_.ranks[rank].waiting_ns);
      }
      const double share =
          waiting_ns / (end - first) /
          static_cast<double>(std::max<int64_t>(1, step_.step_ns));
      svg_.Rect({left, Y(first), width * share, Y(end) - Y(first)}, "wait-bar",
                absl::StrFormat("Rank %d waits for %.1f%% of the step", first,
                                share * 100));
    }
  }

  const PlanRequest& request_;
  const Plan& plan_;
  const SimulatedStep& step_;
  const TimelineScale& scale_;
  const int num_ranks_;
  const double height_;
  Svg svg_;
  std::vector<std::vector<SimulatedSpan>> spans_by_rank_;
};

}  // namespace

std::string DegreeClass(const std::vector<int>& degrees, int degree) {
  const auto found = std::lower_bound(degrees.begin(), degrees.end(), degree);
  const auto index = static_cast<int>(found - degrees.begin());
  // With more degrees than colours, the colours are spread over them.
  const int count = static_cast<int>(degrees.size());
  const int colour =
      count <= kMaxColours ? index : index * (kMaxColours - 1) / (count - 1);
  return absl::StrCat("d", std::min(colour, kMaxColours - 1));
}

std::string TimelineChart(const PlanRequest& request, const Plan& plan,
                          const SimulatedStep& step,
                          const TimelineScale& scale) {
  return Timeline(request, plan, step, scale).Draw();
}

}  // namespace evenstep::plan
