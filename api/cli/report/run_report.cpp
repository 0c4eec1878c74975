#include "api/cli/report/run_report.h"

#include <iomanip>
#include <sstream>

#include "api/cli/arguments/problem_flags.h"
#include "api/cli/report/table.h"

namespace tunesmith::cli {
namespace {

// Above this many operations per byte of traffic, a kernel counts as compute bound.
constexpr double compute_bound_flops_per_byte = 50;

bool is_host(const RunReport& report) { return report.device.kind == DeviceInfo::Kind::host; }

std::string device_text(const RunReport& report) {
  if (is_host(report)) return "host executor (the generated source on the CPU)";
  return report.device.name + ", cuda:" + std::to_string(report.device.ordinal) + ", " + name(report.device.arch);
}

std::string origin_text(const RunReport& report) {
  std::string text(name(report.origin));
  if (report.origin == Origin::nearest) text += " (record for n_cols=" + std::to_string(report.nearest_n_cols) + ")";
  return text;
}

std::string binary_text(const RunReport& report) {
  if (!report.launched) return "none: there is nothing to do";
  return report.compiled ? "compiled in " + fixed(report.compile_ms, 1) + " ms" : "loaded from the cache";
}

std::string tuning_text(const RunReport& report) {
  const Json& tuning = report.tuning;
  if (!tuning.is_object()) return {};
  return std::to_string(tuning.value("timed", 0)) + " of " + std::to_string(tuning.value("candidates", 0)) +
         " candidates timed in " + fixed(tuning.value("wall_s", 0.0), 2) + " s, " +
         times(tuning.value("speedup_over_default", 1.0)) + " over the default configuration";
}

std::string time_text(const RunReport& report) {
  if (is_host(report)) return "not measured: the host executor never claims a speed";
  if (!report.measurement) return "not measured";
  return microseconds(report.measurement->median_us) + " (median of " + std::to_string(report.measurement->samples) +
         ", MAD " + microseconds(report.measurement->mad_us) + ", L2 flushed)";
}

double gb_per_s(const RunReport& report) { return report.cost.bytes() / report.measurement->median_us * 1e-3; }
double tflop_per_s(const RunReport& report) { return report.cost.flops / report.measurement->median_us * 1e-6; }
double copy_gb_per_s(const RunReport& report) { return report.cost.bytes() / report.measurement->copy_median_us * 1e-3; }
double share_of_copy(const RunReport& report) { return report.measurement->copy_median_us / report.measurement->median_us; }

/// Whether the amount of measured work is known.
bool has_rate(const RunReport& report) { return report.cost.overcounted.empty(); }

std::string throughput_text(const RunReport& report) {
  if (!report.measurement || report.measurement->median_us <= 0) return {};
  if (!has_rate(report)) return "not stated: bytes and operations are counted with " + report.cost.overcounted;
  const std::string traffic = fixed(gb_per_s(report), 0) + " GB/s";
  return is_compute_bound(report.cost) ? fixed(tflop_per_s(report), 1) + " TFLOP/s, " + traffic : traffic;
}

// A copy writes half of its bytes. A kernel that writes much less may be faster, so a copy is not an upper bound for it, nor
// for a kernel that is compute bound.
constexpr double min_written_share = 0.25;

bool copy_is_baseline(const RunReport& report) {
  return report.cost.bytes_written >= min_written_share * report.cost.bytes();
}

bool is_memory_bound(const RunReport& report) {
  return report.measurement && report.measurement->copy_median_us > 0 && has_rate(report) && !is_compute_bound(report.cost);
}

std::string baseline_text(const RunReport& report) {
  if (!is_memory_bound(report) || !copy_is_baseline(report)) return {};
  return fixed(100 * share_of_copy(report), 1) + " % of a device copy in the same run (" + fixed(copy_gb_per_s(report), 0) +
         " GB/s)";
}

std::string rate_text(const RunReport& report) {
  if (!is_memory_bound(report) || copy_is_baseline(report)) return {};
  return times(share_of_copy(report)) + " the rate of a device copy of the same size in the same run (" +
         fixed(copy_gb_per_s(report), 0) + " GB/s), which writes half of its bytes: this writes " +
         fixed(100 * report.cost.bytes_written / report.cost.bytes(), 1) + " %";
}

/// "0.512" units in the last place, "2.2e-07" of a value.
std::string error_text(double error, const std::string& unit) {
  if (unit != "relative") return fixed(error, 3);
  std::ostringstream text;
  text << std::scientific << std::setprecision(1) << error;
  return text.str();
}

std::string check_text(const RunReport& report) {
  const CheckResult& check = report.check;
  std::string text = check.passed ? "passed" : "FAILED";
  text += ": max error " + error_text(check.max_error, check.error_unit) + " " + check.error_unit + ", allowed " +
          error_text(check.allowed_error, check.error_unit) + ", against float64";
  if (check.checked_rows < check.total_rows)
    text += "; " + std::to_string(check.checked_rows) + " of " + std::to_string(check.total_rows) + " rows sampled";
  if (!check.note.empty()) text += "; " + check.note;
  return text;
}

}  // namespace

bool is_compute_bound(const Cost& cost) noexcept { return cost.flops > compute_bound_flops_per_byte * cost.bytes(); }

void report_binary(RunReport& report, const Plan& plan) {
  report.compiled = plan.compiled();
  report.compile_ms = plan.compile_ms();
  if (report.compiled || !report.tuning.is_object()) return;
  report.compiled = report.tuning.value("winner_compiled", false);
  if (report.compiled) report.compile_ms = report.tuning.value("winner_compile_ms", 0.0);
}

std::string to_table(const RunReport& report) {
  std::vector<std::pair<std::string, std::string>> rows{
      {"operation",
       report.shipped_program.empty() ? report.problem.op : report.shipped_program + ", a " + report.problem.op},
      {"problem", brief(report.problem)},
      {"device", device_text(report)},
      {"variant", report.config.variant()},
      {"config", report.config.text()},
      {"origin", origin_text(report)},
      {"binary", binary_text(report)},
      {"resources", is_host(report) ? "" : report.resources},
      {"occupancy",
       is_host(report) || !report.launched ? "" : std::to_string(report.occupancy) + " blocks per multiprocessor"},
      {"tuning", tuning_text(report)},
      {"time", report.launched ? time_text(report) : ""},
      {"throughput", throughput_text(report)},
      {"baseline", baseline_text(report)},
      {"copy", rate_text(report)},
      {"check", check_text(report)},
  };
  for (const auto& [array, file] : report.outputs) rows.emplace_back("wrote", array + " to " + file);
  return listing(rows);
}

Json to_json(const RunReport& report) {
  Json json{{"op", report.problem.op},
            {"problem", to_json(report.problem.fields)},
            {"device", is_host(report) ? "host" : report.device.name},
            {"device_kind", is_host(report) ? "host" : "cuda"},
            {"arch", is_host(report) ? Json() : Json(name(report.device.arch))},
            {"variant", report.config.variant()},
            {"config", report.config.text()},
            {"origin", name(report.origin)},
            {"nearest_n_cols", report.origin == Origin::nearest ? Json(report.nearest_n_cols) : Json()},
            {"compiled", report.compiled},
            {"compile_ms", report.compile_ms},
            {"occupancy", report.occupancy},
            {"resources", is_host(report) ? "" : report.resources},
            {"bytes", report.cost.bytes()},
            {"bytes_written", report.cost.bytes_written},
            {"flops", report.cost.flops},
            {"overcounted", report.cost.overcounted}};
  Json tuning = report.tuning;
  if (tuning.is_object()) tuning.erase("trials");
  json["tuning"] = std::move(tuning);
  json.update({{"time_us", nullptr},
               {"mad_us", nullptr},
               {"gb_per_s", nullptr},
               {"tflop_per_s", nullptr},
               {"copy_gb_per_s", nullptr},
               {"share_of_copy", nullptr}});
  if (report.measurement && report.measurement->median_us > 0) {
    json["time_us"] = report.measurement->median_us;
    json["mad_us"] = report.measurement->mad_us;
    const bool copied = report.measurement->copy_median_us > 0;
    if (copied) json["copy_gb_per_s"] = copy_gb_per_s(report);
    if (has_rate(report)) {
      json["gb_per_s"] = gb_per_s(report);
      json["tflop_per_s"] = tflop_per_s(report);
      if (copied) json["share_of_copy"] = share_of_copy(report);
    }
  }
  json.update({{"verified", report.check.passed},
               {"checked_rows", report.check.checked_rows},
               {"total_rows", report.check.total_rows},
               {"max_error", report.check.max_error},
               {"error_unit", report.check.error_unit},
               {"allowed_error", report.check.allowed_error}});
  if (!report.check.note.empty()) json["check_note"] = report.check.note;
  if (!report.check.passed) json["first_failure"] = report.check.first_failure;
  json["outputs"] = report.outputs;
  return json;
}

}  // namespace tunesmith::cli
