#include "api/cli/page/tuning_page.h"

#include <algorithm>
#include <map>

#include "api/cli/page/chart.h"
#include "api/cli/page/highlight.h"
#include "api/cli/page/html.h"
#include "api/cli/page/tensor_cores.h"
#include "api/cli/report/run_report.h"
#include "tuner/recorded.h"

namespace tunesmith::cli {
namespace {

constexpr std::size_t max_bars = 40;

constexpr const char* style = R"css(
:root { color-scheme: light dark; --page: #fff; --text: #1c2024; --faint: #60646c; --line: #d9d9e0; --panel: #f6f7f9;
  --bar: #9db7d5; --winner: #1f6feb; --keyword: #8250df; --comment: #57606a; --literal: #0a5c36; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181c; --text: #e6e8eb; --faint: #a0a6ad; --line: #363a41; --panel: #1f2228;
    --bar: #4a6484; --winner: #6cb0ff; --keyword: #c8a6ff; --comment: #98a1ab; --literal: #8ddb9f; } }
body { background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1000px;
  padding: 24px; }
h1 { font-size: 1.5rem; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 32px 0 8px; }
p, dd { max-width: 80ch; }
.faint { color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 0; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { border-bottom: 1px solid var(--line); padding: 3px 12px 3px 0; text-align: left; white-space: nowrap; }
th { color: var(--faint); font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.marked td { color: var(--winner); font-weight: 600; }
svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--line); }
.bar, .point { fill: var(--bar); }
.bar.winner, .point.winner { fill: var(--winner); }
.spread { stroke: var(--text); stroke-width: 1.5; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; font: 13px/1.45 ui-monospace, monospace;
  margin: 8px 0; overflow-x: auto; padding: 12px; }
.c { color: var(--comment); } .d, .k { color: var(--keyword); } .s, .n { color: var(--literal); }
summary { cursor: pointer; }
)css";

/// "4096,dtype=bf16" -> "4096, dtype=bf16": lines may break after commas.
std::string spaced(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == ',') result += ' ';
  }
  return result;
}

/// "variant=warp,threads=64" -> "warp".
std::string variant_of(const std::string& config) {
  const std::size_t begin = config.find("variant=");
  return begin == std::string::npos ? "" : config.substr(begin + 8, config.find(',', begin) - begin - 8);
}

double gb_per_s(const TuningRecord& record) { return record.median_us > 0 ? record.bytes / record.median_us * 1e-3 : 0; }

std::string compute_rate(const TuningPage& page) {
  const double tflops = page.cost.flops / page.record.median_us * 1e-6;
  std::string text = fixed(tflops, 1) + " TFLOP/s";
  if (const std::optional<TensorCores> peak = tensor_cores(page.record))
    text += ", " + fixed(100 * tflops / peak->tflops, 1) + " % of the tensor cores at " + fixed(peak->clock_mhz, 0) +
            " MHz (" + fixed(peak->tflops, 0) + " TFLOP/s)";
  return text;
}

std::string rate(const TuningPage& page) {
  const double rate = gb_per_s(page.record);
  if (rate <= 0) return {};
  std::string text = fixed(rate, 0) + " GB/s";
  if (is_compute_bound(page.cost) && page.cost.overcounted.empty()) return compute_rate(page) + ", " + text;
  if (page.copy_gb_per_s)
    text += ", " + fixed(100 * rate / *page.copy_gb_per_s, 1) + " % of a copy of about as many bytes (" +
            fixed(*page.copy_gb_per_s, 0) + " GB/s)";
  return text;
}

std::string summary(const TuningPage& page) {
  const TuningRecord& record = page.record;
  const double factor = record.median_us > 0 ? record.default_median_us / record.median_us : 0;
  std::vector<std::pair<std::string, std::string>> rows{
      {"asked for", spaced(page.instead_of)},
      {"measured problem", spaced(record.problem.substr(std::min(record.problem.find(' ') + 1, record.problem.size())))},
      {"device", record.key.device_class.substr(0, record.key.device_class.find(';'))},
      {"fastest configuration", spaced(record.config)},
      {"time", microseconds(record.median_us) + ", median absolute deviation " + microseconds(record.mad_us)},
      {"rate", rate(page)},
      {"default configuration", microseconds(record.default_median_us) + ": the fastest is " + times(factor) + " as fast"},
      {"effort", record.effort},
      {"measured", date_text(record.created_unix_s)},
      {"disturbed", disturbance_text(record)},
      {"use", page.use}};
  for (const char* name : {"driver", "sm_clock_khz", "power_limit_w", "tunesmith"})
    if (const auto found = record.provenance.find(name); found != record.provenance.end())
      rows.emplace_back(name, found->second);
  return html_listing(rows);
}

std::string candidates(const TuningPage& page, const std::vector<Trial>& timed) {
  if (timed.empty())
    return "<p class=\"faint\">The cache holds no trials of this record. Records that ship with Tunesmith have none; "
           "<code>tunesmith tune --force</code> measures again.</p>\n";
  std::vector<Bar> bars;
  std::vector<std::vector<std::string>> rows;
  int winner = -1;
  for (const Trial& trial : timed) {
    const bool is_winner = trial.config == page.record.config;
    const std::string rank = std::to_string(rows.size() + 1);
    if (is_winner) winner = static_cast<int>(rows.size());
    if (bars.size() < max_bars)
      bars.push_back({rank + " " + variant_of(trial.config), trial.config + ": " + microseconds(trial.median_us),
                      trial.median_us, trial.mad_us, is_winner ? "winner" : ""});
    rows.push_back({rank, fixed(trial.median_us, 2), fixed(trial.mad_us, 2), std::to_string(trial.samples),
                    times(trial.median_us / page.record.median_us), trial.status, trial.config});
  }
  std::string html = bar_chart(bars, "microseconds (the line is the median absolute deviation)");
  if (rows.size() > bars.size())
    html +=
        "<p class=\"faint\">The fastest " + std::to_string(bars.size()) + " of " + std::to_string(rows.size()) + ".</p>\n";
  return html + "<details><summary>All timed candidates</summary>\n" +
         html_table({{"rank", true},
                     {"median us", true},
                     {"MAD us", true},
                     {"samples", true},
                     {"over fastest", true},
                     {"status"},
                     {"configuration"}},
                    rows, winner) +
         "</details>\n";
}

std::string rejected(const std::vector<Trial>& others, bool has_trials) {
  if (!has_trials) return "<p class=\"faint\">Unknown without trials.</p>\n";
  if (others.empty()) return "<p class=\"faint\">None.</p>\n";
  std::map<std::string, int> counts;
  std::vector<std::vector<std::string>> rows;
  for (const Trial& trial : others) {
    ++counts[trial.status];
    rows.push_back({trial.status, trial.reason, trial.config});
  }
  std::string text;
  for (const auto& [status, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + status;
  return "<p>" + escaped(text) + "</p>\n<details><summary>Reasons</summary>\n" +
         html_table({{"status"}, {"reason"}, {"configuration"}}, rows) + "</details>\n";
}

/// Returns a column for each kernel.
std::string resources(const TuningPage& page) {
  if (!page.no_resources.empty()) return "<p class=\"faint\">" + escaped(page.no_resources) + "</p>\n";
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < page.resource_columns.size(); ++i) {
    std::vector<std::string> row{page.resource_columns[i].title};
    for (const std::vector<std::string>& kernel : page.resources) row.push_back(kernel[i]);
    if (i > 0)
      rows.push_back(row);
    else
      for (const std::string& title : row) columns.push_back({title, !columns.empty()});
  }
  return html_table(columns, rows);
}

std::string over_cols(const TuningPage& page) {
  std::vector<Point> points;
  for (const TuningRecord& record : page.related)
    if (gb_per_s(record) > 0)
      points.push_back({static_cast<double>(record.key.n_cols), gb_per_s(record),
                        "n_cols " + std::to_string(record.key.n_cols) + ", rows up to " +
                            std::to_string(record.key.rows_bucket) + ": " + fixed(gb_per_s(record), 0) + " GB/s, " +
                            record.config,
                        record.key == page.record.key});
  if (points.size() < 2)
    return "<p class=\"faint\">The cache holds no other record of this operation, problem class and device.</p>\n";
  return point_chart(points, "n_cols", "GB/s");
}

std::string source_of(const TuningPage& page) {
  if (!page.no_source.empty()) return "<p class=\"faint\">" + escaped(page.no_source) + "</p>\n";
  return "<pre>" + highlighted(page.kernel) + "</pre>\n<details><summary>The whole translation unit</summary>\n<pre>" +
         highlighted(page.source) + "</pre></details>\n";
}

}  // namespace

std::string html(const TuningPage& page) {
  std::vector<Trial> timed, others;
  for (const Trial& trial : page.trials) (trial.samples > 0 ? timed : others).push_back(trial);
  std::ranges::stable_sort(timed, {}, &Trial::median_us);
  std::ranges::stable_sort(others, {}, &Trial::status);
  const auto section = [](const char* title, const std::string& content) {
    return "<section><h2>" + std::string(title) + "</h2>\n" + content + "</section>\n";
  };
  const TuningKey& key = page.record.key;
  const std::string title = key.op + ", n_cols " + std::to_string(key.n_cols);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(title) + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<h1>" + escaped(title) +
         "</h1>\n<p class=\"faint\">" + escaped(spaced(key.problem_class)) + "</p>\n" + summary(page) +
         section("Candidates", candidates(page, timed)) +
         section("Rejected candidates", rejected(others, !page.trials.empty())) + section("Resources", resources(page)) +
         section("Records over n_cols", over_cols(page)) + section("Generated kernel", source_of(page)) +
         "</body>\n</html>\n";
}

}  // namespace tunesmith::cli
