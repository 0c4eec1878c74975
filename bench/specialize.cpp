// tunesmith_specialize [WIDTHS [OP|all [search]]]: device time of kernels for a bucket of widths relative to kernels for the
// exact width, both in their default configurations and interleaved. WIDTHS is a number of random widths from 1 to 131072,
// or widths with commas, `957,1163` or `957,`, optionally with a number of rows: `75x66528,`. OP is an operation, or
// `programs` for some row programs. With `search`, also the fastest configurations of the bucket's kernels where the default
// is beyond the 12% that are allowed. Needs a GPU.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/gpu.h"
#include "tunesmith/rms_norm.h"

namespace tunesmith::bench {
namespace {

constexpr std::array programs{"layer_norm", "swiglu", "row_quantize"};
constexpr std::int64_t max_cols = 131072, usual_elements = std::int64_t{1} << 25, max_elements = std::int64_t{1} << 28;
constexpr double max_allowed = 1.12;

struct Work {
  std::string op;
  Problem problem;
  std::optional<Plan> exact, capacity;
};

/// Fills the device whatever the width: 128 MiB of f32 at least where rows are many enough.
std::int64_t rows_for(std::int64_t cols) { return std::clamp<std::int64_t>(usual_elements / cols, 256, 65536); }

struct Size {
  std::int64_t rows, cols;
};

/// Returns the size of `text`: COLS or ROWSxCOLS, bounded by the arrays.
Size parse_size(const std::string& text) {
  const auto number = [](const std::string& digits, std::int64_t most) {
    return std::clamp<std::int64_t>(std::strtoll(digits.c_str(), nullptr, 10), 1, most);
  };
  const std::size_t x = text.find('x');
  const std::int64_t cols = number(text.substr(x == std::string::npos ? 0 : x + 1), max_cols);
  return {x == std::string::npos ? rows_for(cols) : number(text.substr(0, x), max_elements / cols), cols};
}

/// Returns the sizes that an argument with commas lists, or as many random ones as it says.
std::vector<Size> sizes_of(const std::string& text, std::mt19937_64& random) {
  std::vector<Size> sizes;
  if (text.find(',') != std::string::npos) {
    std::istringstream list(text);
    for (std::string size; std::getline(list, size, ',');) sizes.push_back(parse_size(size));
    return sizes;
  }
  std::uniform_real_distribution<double> exponent(0, 17);
  const long count = std::max(1L, std::strtol(text.c_str(), nullptr, 10));
  for (long i = 0; i < count; ++i) {
    const auto cols = static_cast<std::int64_t>(std::exp2(exponent(random)));
    const std::int64_t width = i % 2 == 0 && cols >= 8 ? cols / 8 * 8 : cols;  // as many aligned rows as others
    sizes.push_back({rows_for(width), width});
  }
  return sizes;
}

std::vector<Work> works_of(const std::string& widths, std::string_view only) {
  std::mt19937_64 random(7);  // NOLINT(bugprone-random-generator-seed): every run has the same widths
  std::vector<Work> works;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, cols] : sizes_of(widths, random)) {
      const auto add = [&](const char* op, Fields more = {}) {
        if (!only.empty() && op != only && only != "programs") return;
        Problem problem{op, {{"rows", rows}, {"cols", cols}, {"dtype", std::string(name(dtype))}}};
        for (const auto& [field, value] : more) problem.fields.set(field, value);
        works.push_back(
            {std::string(op) + (more.find("gradient") == nullptr ? " " : " with gradient ") + std::string(name(dtype)),
             problem,
             {},
             {}});
      };
      if (only == "programs" || std::ranges::find(programs, only) != programs.end()) {
        for (const char* program : programs) add(program);
        continue;
      }
      add("softmax");
      add("softmax_backward");
      add("cross_entropy", {{"reduction", std::string("none")}});
      add("cross_entropy", {{"reduction", std::string("none")}, {"gradient", std::string("in_place")}});
      add("rms_norm");
    }
  return works;
}

/// Calls `work(i)` for all i below `count`.
template <typename Work>
void on_all_cores(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < count; at = next++) work(at);
    });
}

void prepare(Engine& engine, std::vector<Work>& works) {
  on_all_cores(works.size(), [&](std::size_t i) {
    works[i].exact = engine.prepare(works[i].problem, {.specialize = Specialize::exact});
    works[i].capacity = engine.prepare(works[i].problem, {.specialize = Specialize::capacity});
  });
}

/// Returns the most elements of any problem.
std::int64_t max_elements_of(const std::vector<Work>& works) {
  std::int64_t most = 1;
  for (const Work& work : works)
    most = std::max(most, work.problem.fields.integer("rows") * work.problem.fields.integer("cols"));
  return most;
}

/// Addresses for every problem: arrays at the same position share a buffer.
class Arrays {
 public:
  Arrays(Engine& engine, const std::vector<Work>& works)
      : numbers_(random_numbers(engine, DType::bf16, 2 * max_elements_of(works), 1)) {
    std::int64_t values = max_cols;  // of arrays [row] and [col]
    for (const Work& work : works) values = std::max(values, work.problem.fields.integer("rows"));
    for (int i = 0; i < 12; ++i) others_.emplace_back(engine, i == 0 || i == 1 ? numbers_.bytes() : values * 8);
    for (DeviceBuffer& buffer : others_) engine.parts().device->fill(buffer.data(), 0, buffer.bytes());
  }
  std::vector<void*> of(const Plan& plan) {
    std::vector<void*> addresses;
    std::size_t large = 0, small = 2;
    for (const ArrayInfo& info : plan.arrays()) {
      const bool is_rows = info.shape.size() == 2;
      if (!info.in_place_of.empty() || (is_rows && addresses.empty()))
        addresses.push_back(numbers_.data());
      else
        addresses.push_back(others_.at(is_rows ? large++ : small++).data());
    }
    return addresses;
  }

 private:
  DeviceBuffer numbers_;
  std::vector<DeviceBuffer> others_;
};

struct Ratio {
  double value, exact_us;
  const Work* work;
};

void print(const std::string& title, std::vector<Ratio> ratios) {
  double logs = 0;
  for (const Ratio& ratio : ratios) logs += std::log(ratio.value);
  std::ranges::sort(ratios, std::ranges::greater(), &Ratio::value);
  std::printf("%-36s %3zu widths: geometric mean %.3f, most %.3f\n", title.c_str(), ratios.size(),
              std::exp(logs / static_cast<double>(ratios.size())), ratios.front().value);
  for (const Ratio& ratio : ratios) {
    if (ratio.value < 1.08) break;
    const Work& work = *ratio.work;
    std::printf("    %.3f  cols %6lld rows %6lld  exact %.1f us  %s | %s\n", ratio.value,
                static_cast<long long>(work.problem.fields.integer("cols")),
                static_cast<long long>(work.problem.fields.integer("rows")), ratio.exact_us,
                work.exact->config().text().c_str(), work.capacity->config().text().c_str());
  }
}

/// Prints the three fastest configurations of kernels for the bucket, over the kernel for the width.
void search(Engine& engine, const Work& work, const std::vector<void*>& addresses) {
  const ParsedProblemPtr parsed = find_op(work.problem.op).parse(work.problem);
  const Value capacity = *work.capacity->config().fields.find("capacity");
  std::vector<Config> configs = parsed->search_space(engine.device(), Effort::full);
  for (Config& config : configs) config.fields.set("capacity", capacity);
  for (std::size_t i = 0, count = configs.size(); i < count; ++i) {
    if (configs[i].variant() != "hybrid" && configs[i].variant() != "cluster") continue;
    Config sized = configs[i];
    sized.fields.set("sized_by_row", std::int64_t{1});
    configs.push_back(std::move(sized));
  }
  std::erase_if(configs, [&](const Config& config) { return !parsed->why_invalid(engine.device(), config).empty(); });
  std::vector<std::optional<Plan>> plans(configs.size());
  on_all_cores(configs.size(), [&](std::size_t i) { plans[i] = engine.prepare(work.problem, {.config = configs[i]}); });
  std::vector<std::pair<double, std::string>> ranked;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::vector<double> us = interleaved_us(*engine.parts().device,
                                                  {[&](Stream stream) { work.exact->launch(addresses, stream); },
                                                   [&](Stream stream) { plans[i]->launch(addresses, stream); }},
                                                  9);
    ranked.emplace_back(us[1] / us[0], configs[i].text());
  }
  std::ranges::sort(ranked);
  for (std::size_t i = 0; i < std::min<std::size_t>(3, ranked.size()); ++i)
    std::printf("        %.3f of %zu  %s\n", ranked[i].first, ranked.size(), ranked[i].second.c_str());
}

}  // namespace

int specialize(const std::string& widths, std::string_view only, bool searches) {
  EngineOptions options = EngineOptions::from_environment();
  options.mode = Mode::off;
  options.cache_file.clear();
  options.system_caches.clear();
  const auto engine = open_gpu(options);
  if (engine == nullptr) {
    std::puts("tunesmith_specialize: no GPU here, nothing measured");
    return 0;
  }
  std::printf("%s, default configurations, time of the kernel for a bucket over that for the width\n",
              engine->device().name.c_str());
  std::vector<Work> works = works_of(widths, only);
  prepare(*engine, works);
  Arrays arrays(*engine, works);
  std::vector<std::string> titles;
  std::vector<std::vector<Ratio>> ratios;
  std::vector<Ratio> all;
  for (const Work& work : works) {
    const std::vector<void*> addresses = arrays.of(*work.exact);
    for (const Plan* plan : {&*work.exact, &*work.capacity}) try {
        plan->launch(addresses);
        engine->synchronize();
      } catch (const Error&) {
        std::printf("fault: %s | %s\n", work.problem.text().c_str(), plan->config().text().c_str());
        std::fflush(stdout);
        throw;
      }
    const std::vector<double> us = interleaved_us(*engine->parts().device,
                                                  {[&](Stream stream) { work.exact->launch(addresses, stream); },
                                                   [&](Stream stream) { work.capacity->launch(addresses, stream); }},
                                                  15);
    auto at = static_cast<std::size_t>(std::ranges::find(titles, work.op) - titles.begin());
    if (at == titles.size()) titles.push_back(work.op), ratios.emplace_back();
    ratios[at].push_back({us[1] / us[0], us[0], &work});
    if (searches && ratios[at].back().value > max_allowed) {
      std::printf("    %.3f  %s\n", ratios[at].back().value, work.problem.text().c_str());
      search(*engine, work, addresses);
      std::fflush(stdout);
    }
    all.push_back(ratios[at].back());
  }
  for (std::size_t i = 0; i < titles.size(); ++i) print(titles[i], ratios[i]);
  double logs = 0, most = 0;
  for (const Ratio& ratio : all) logs += std::log(ratio.value), most = std::max(most, ratio.value);
  std::printf("all %zu: geometric mean %.3f, most %.3f\n", all.size(), std::exp(logs / static_cast<double>(all.size())),
              most);
  return 0;
}

}  // namespace tunesmith::bench

int main(int argc, char** argv) {
  return tunesmith::bench::specialize(argc > 1 ? argv[1] : "40",
                                      argc > 2 && std::string_view(argv[2]) != "all" ? argv[2] : "",
                                      argc > 3 && std::string_view(argv[3]) == "search");
}
