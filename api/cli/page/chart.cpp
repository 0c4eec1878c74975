#include "api/cli/page/chart.h"

#include <algorithm>
#include <cmath>

#include "api/cli/page/html.h"

namespace tunesmith::cli {
namespace {

constexpr double width = 900;

std::string number(double value) { return fixed(value, 1); }

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\"/>\n";
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" + escaped(text) +
         "</text>\n";
}

std::string svg(double height, const std::string& title, const std::string& content) {
  return "<svg role=\"img\" viewBox=\"0 0 " + number(width) + " " + number(height) + "\"><title>" + escaped(title) +
         "</title>\n" + content + "</svg>\n";
}

/// Returns a step of 1, 2 or 5 times a power of ten that divides `range` into three to seven parts.
double round_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 3)));
  for (const double factor : {5.0, 2.0})
    if (range / (power * factor) >= 3) return power * factor;
  return power;
}

std::string axis_text(double value, double step) {
  return fixed(value, step < 1 ? static_cast<int>(std::ceil(-std::log10(step))) : 0);
}

}  // namespace

std::string bar_chart(const std::vector<Bar>& bars, const std::string& unit) {
  constexpr double left = 90, right = 20, row = 18, top = 6, below = 40;
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.value + bar.spread);
  if (most <= 0) return {};
  const double bottom = top + row * static_cast<double>(bars.size()), scale = (width - left - right) / most;
  const double step = round_step(most);
  std::string content;
  for (int i = 0; i * step <= most; ++i) {
    const double value = i * step;
    content += line(left + value * scale, top, left + value * scale, bottom, "grid");
    content += label(left + value * scale, bottom + 16, "middle", axis_text(value, step));
  }
  content += label((left + width - right) / 2, bottom + 34, "middle", unit);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = top + row * static_cast<double>(i), middle = y + row / 2;
    content += "<g><title>" + escaped(bar.tip) + "</title><rect class=\"bar " + escaped(bar.mark) + "\" x=\"" +
               number(left) + "\" y=\"" + number(y + 2) + "\" width=\"" + number(bar.value * scale) + "\" height=\"" +
               number(row - 4) + "\"/></g>\n";
    if (bar.spread > 0)
      content +=
          line(left + (bar.value - bar.spread) * scale, middle, left + (bar.value + bar.spread) * scale, middle, "spread");
    content += label(left - 6, middle + 4, "end", bar.label);
  }
  return svg(bottom + below, "Times of the candidates", content);
}

std::string point_chart(const std::vector<Point>& points, const std::string& x_title, const std::string& y_title) {
  constexpr double left = 70, right = 20, top = 24, bottom = 300, below = 46;
  if (points.empty()) return {};
  double least = points[0].x, most = points[0].x, highest = 0;
  for (const Point& point : points) {
    least = std::min(least, point.x);
    most = std::max(most, point.x);
    highest = std::max(highest, point.y);
  }
  if (least <= 0 || highest <= 0) return {};
  const int first = static_cast<int>(std::floor(std::log2(least)));
  const int last = std::max(static_cast<int>(std::ceil(std::log2(most))), first + 1);
  const auto x_of = [&](double x) { return left + (std::log2(x) - first) / (last - first) * (width - left - right); };
  const double step = round_step(highest), top_value = step * std::ceil(highest / step);
  const auto y_of = [&](double y) { return bottom - y / top_value * (bottom - top); };
  std::string content;
  for (int i = 0; i <= std::lround(top_value / step); ++i) {
    const double value = i * step;
    content += line(left, y_of(value), width - right, y_of(value), "grid");
    content += label(left - 6, y_of(value) + 4, "end", axis_text(value, step));
  }
  const int every = (last - first + 11) / 12;
  for (int power = first; power <= last; power += every)
    content += label(x_of(std::exp2(power)), bottom + 18, "middle", fixed(std::exp2(power), 0));
  content += label((left + width - right) / 2, bottom + 38, "middle", x_title) + label(left, top - 10, "start", y_title);
  for (const Point& point : points)
    content += "<circle class=\"point" + std::string(point.marked ? " winner" : "") + "\" cx=\"" + number(x_of(point.x)) +
               "\" cy=\"" + number(y_of(point.y)) + "\" r=\"" + (point.marked ? "6" : "4") + "\"><title>" +
               escaped(point.tip) + "</title></circle>\n";
  return svg(bottom + below, y_title + " over " + x_title, content);
}

}  // namespace tunesmith::cli
