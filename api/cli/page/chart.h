#pragma once
// Charts as inline SVG. Colours come from the page's style sheet, so that they suit light and dark pages.

#include <string>
#include <vector>

namespace tunesmith::cli {

/// A horizontal bar with a whisker of its spread.
struct Bar {
  std::string label;
  std::string tip;  ///< shown by the browser under the pointer
  double value = 0, spread = 0;
  std::string mark;  ///< CSS class: "winner" or empty
};
/// Draws bars from zero, one below the other. `unit` labels the axis.
std::string bar_chart(const std::vector<Bar>& bars, const std::string& unit);

struct Point {
  double x = 0, y = 0;
  std::string tip;
  bool marked = false;
};
/// Draws points over a logarithmic x axis; y starts at zero.
std::string point_chart(const std::vector<Point>& points, const std::string& x_title, const std::string& y_title);

}  // namespace tunesmith::cli
