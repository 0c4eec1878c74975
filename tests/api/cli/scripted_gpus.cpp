// tunesmith_scripted: the command-line tool on scripted GPUs, as many as TUNESMITH_FAKE_GPUS says. Everything works as in
// the tool, child processes included, except for what a child does on its GPU: it waits SCRIPTED_COMPILE_MS, measures four
// times under the GPU's measuring lock, SCRIPTED_MEASURE_MS in all, and stores the default configuration. Problems with 13
// columns fail. Steps are lines "TIME_US STEP DEVICE PID COLS" of the file SCRIPTED_LOG.

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string_view>
#include <thread>

#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/tune_child.h"
#include "cache/cache.h"
#include "jit/cuda/device.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tuner/select.h"

int tunesmith_main(int argc, char** argv);  // api/cli/main.cpp

namespace tunesmith::cli {
namespace {

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::chrono::milliseconds wanted(const char* variable) {
  const char* const text = std::getenv(variable);
  return std::chrono::milliseconds(text == nullptr ? 0 : number(text));
}

struct Asked {
  Problem problem;
  std::string device;
  std::filesystem::path cache_file;
  bool has_turn = false;
};

Asked read(const std::vector<std::string>& arguments) {
  Asked asked;
  std::string fields;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i - 1] == "--option") fields += (fields.empty() ? "" : ",") + arguments[i];
    if (arguments[i - 1] == "--device") asked.device = arguments[i];
    if (arguments[i - 1] == "--cache") asked.cache_file = arguments[i];
    if (arguments[i] == "--turn") asked.has_turn = true;
  }
  asked.problem = find_op(arguments[1]).normalize({arguments[1], parse_fields(fields, "problem")});
  return asked;
}

void measure(const Asked& asked, const std::function<void(const char*)>& log) {
  const std::size_t colon = asked.device.find(':');
  CudaDeviceOptions options;
  options.ordinal = colon == std::string::npos ? 0 : number(std::string_view(asked.device).substr(colon + 1));
  options.nvml_library.clear();
  std::this_thread::sleep_for(wanted("SCRIPTED_COMPILE_MS"));
  log("compiled");
  if (asked.has_turn) {
    std::puts(compiled_line);
    std::fflush(stdout);
    if (!wait_for_turn(STDIN_FILENO, interrupted())) throw Error(ErrorCode::cancelled, "cancelled");
  }
  log("turn");
  CudaDevice device(Driver::open(), options);
  const std::vector<std::function<void(Stream)>> works{[&](Stream) {
    log("measure");
    std::this_thread::sleep_for(wanted("SCRIPTED_MEASURE_MS") / 4);
    log("measured");
  }};
  for (int batch = 0; batch < 4; ++batch) device.time_us(works, false);
}

int tune_scripted(const Asked& asked) {
  const std::int64_t cols = asked.problem.fields.integer("cols");
  std::ofstream file;
  if (const char* const name = std::getenv("SCRIPTED_LOG")) file.open(name, std::ios::app);
  const auto log = [&](const char* step) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    file << std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) + " " + step + " " +
                asked.device + " " + std::to_string(getpid()) + " " + std::to_string(cols) + "\n"
         << std::flush;  // one write
  };
  log("begin");
  if (cols == 13) {
    std::puts(dump(to_json(Error(ErrorCode::compile_failed, "13 columns do not compile"))).c_str());
    return 1;
  }
  catch_interrupts();
  try {
    measure(asked, log);
  } catch (const Error& error) {
    log("stopped");
    std::puts(dump(to_json(error)).c_str());
    return 1;
  }
  const ParsedProblemPtr parsed = find_op(asked.problem.op).parse(asked.problem);
  const DeviceInfo info = generic_device({9, 0, 'a'});
  TuningRecord record;
  record.key = tuning_key(*parsed, info, TemplateSet::embedded());
  record.config = parsed->default_config(info).text();
  record.problem = asked.problem.text();
  record.effort = "quick";
  record.median_us = record.default_median_us = 1;
  CacheOptions options;
  options.file = asked.cache_file;
  Cache(options).store_record(record, {});
  log("end");
  TuneResult result;
  result.record = std::move(record);
  result.timed = 1;
  std::puts(dump(tuning_facts(asked.problem, info, result, asked.cache_file)).c_str());
  return 0;
}

}  // namespace
}  // namespace tunesmith::cli

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() > 2 && arguments[0] == "tune" && arguments[2] == "--here")
    return tunesmith::cli::tune_scripted(tunesmith::cli::read(arguments));
  return tunesmith_main(argc, argv);
}
