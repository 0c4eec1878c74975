#include "tuner/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>
#include <optional>

#include "core/half.h"
#include "templates/sampling.h"
#include "tuner/budget.h"
#include "tuner/candidate.h"
#include "tuner/decide.h"
#include "tuner/device_memory.h"
#include "tuner/select.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr int algorithms_tried = 8;
constexpr int min_rounds = 5, max_rounds = 15;
constexpr double drop_ratio = 1.1;  // of the fastest one's median, after min_rounds
constexpr int checked_elements = 64;

std::string strides_text(const MatmulProblem& p) {
  std::string text = p.factors ? ", alpha " + std::to_string(p.factors->alpha) + " beta " + std::to_string(p.factors->beta)
                               : std::string(", factors on the device");
  const auto add = [&text](const char* what, std::initializer_list<std::int64_t> numbers) {
    text += what;
    for (const std::int64_t number : numbers) text += " " + std::to_string(number);
  };
  add(", strides", {p.a_row_stride, p.b_row_stride, p.c_row_stride});
  add(", aligned to", {p.a_alignment, p.b_alignment, p.c_alignment, p.bias ? p.bias_alignment : 0});
  add(", workspace", {static_cast<std::int64_t>(p.workspace_bytes)});
  return text;
}

TuningKey key_of(const MatmulLibrary& library, const MatmulProblem& problem, const Device& device) {
  TuningKey key;
  key.op = library_matmul;
  key.problem_class = problem.text() + strides_text(problem);
  key.n_cols = problem.n;
  key.rows_bucket = problem.m;
  key.device_class = device.info().device_class();
  key.template_digest = library.identity();
  key.policy = measuring_policy();
  return key;
}

Config config_of(std::size_t algorithm) { return {{{"algorithm", static_cast<std::int64_t>(algorithm)}}}; }

/// Returns the algorithm of a record; nothing if another version or a hand wrote another configuration.
std::optional<std::size_t> recorded(const std::string& config, std::size_t algorithms) try {
  const Fields fields = parse_fields(config, "recorded config");
  const std::int64_t number = fields.integer("algorithm");
  if (number < 0 || static_cast<std::size_t>(number) >= algorithms) return {};
  return static_cast<std::size_t>(number);
} catch (const Error&) {
  return {};
}

/// An array of numbers near a standard normal distribution, because the time of a product depends on how many bits toggle.
/// They repeat after a few million elements, with another period for each array.
class RandomArray {
 public:
  RandomArray(Device& device, DType dtype, std::int64_t elements, std::uint64_t seed)
      : dtype_(dtype), period_((std::int64_t{1} << 21) - 9 * static_cast<std::int64_t>(seed)) {
    const std::int64_t bytes = elements * size_of(dtype);
    memory_ = DeviceMemory(device, static_cast<std::size_t>(bytes));
    const std::int64_t head = std::min(elements, period_);
    values_.resize(static_cast<std::size_t>(head * size_of(dtype)));
    for (std::int64_t i = 0; i < head; ++i)
      write_element(dtype, values_.data(), i,
                    static_cast<float>(bell(scramble((seed << 40) + static_cast<std::uint64_t>(i)))));
    device.copy_to_device(memory_.get(), values_.data(), values_.size());
    for (auto filled = static_cast<std::int64_t>(values_.size()); filled < bytes;) {
      const std::int64_t more = std::min(filled, bytes - filled);
      device.copy_on_device(memory_.get() + filled, memory_.get(), static_cast<std::size_t>(more));
      filled += more;
    }
  }
  void* address() const noexcept { return memory_.get(); }
  double at(std::int64_t i) const { return read_element(dtype_, values_.data(), i % period_); }

 private:
  DType dtype_;
  std::int64_t period_;
  std::vector<std::byte> values_;
  DeviceMemory memory_;
};

std::int64_t extent(bool transposed, std::int64_t rows, std::int64_t cols, std::int64_t row_stride) {
  return transposed ? (cols - 1) * row_stride + rows : (rows - 1) * row_stride + cols;
}

/// An element of c that is compared with float64.
struct Checked {
  std::int64_t row = 0, col = 0;
  double sum = 0;     ///< of the product, without alpha
  double before = 0;  ///< the element before the launch
};

class Trials {
 public:
  Trials(const MatmulProblem& problem, Device& device)
      : p_(problem),
        device_(device),
        a_(device, p_.dtype, extent(p_.transpose_a, p_.m, p_.k, p_.a_row_stride), 1),
        b_(device, p_.dtype, extent(p_.transpose_b, p_.k, p_.n, p_.b_row_stride), 2),
        c_(device, p_.out_dtype, extent(false, p_.m, p_.n, p_.c_row_stride), 3),
        bias_(device, p_.out_dtype, p_.bias ? p_.n : 1, 4),
        factors_(device, sizeof(float) * 2),
        workspace_(device, p_.workspace_bytes),
        checked_(chosen_elements()) {
    const std::array<float, 2> values{factors().alpha, factors().beta};
    device.copy_to_device(factors_.get(), values.data(), sizeof values);
  }

  void enqueue(const PreparedMatmul& product, Stream stream) const {
    const auto* const factors = reinterpret_cast<const float*>(factors_.get());
    product.enqueue({a_.address(), b_.address(), c_.address(), factors, factors + 1, workspace_.get(), bias_.address()},
                    stream);
  }

  /// Launches the product and compares elements of c with float64. Returns the first difference.
  std::string first_failure(const PreparedMatmul& product) {
    for (Checked& one : checked_) {
      one.before = read(one);
      if (factors().beta == 0) write_nan(one);  // it could still hold an earlier algorithm's result
    }
    enqueue(product, nullptr);
    device_.synchronize(nullptr);
    for (const Checked& one : checked_) {
      double expected = factors().alpha * one.sum;
      if (factors().beta != 0) expected += factors().beta * one.before;
      if (p_.bias) expected += bias_.at(one.col);
      const double found = read(one);
      const double allowed = 2 * spacing(p_.out_dtype, expected) + sum_error();
      if (!(std::fabs(found - expected) <= allowed))
        return "c[" + std::to_string(one.row) + "," + std::to_string(one.col) + "] is " + std::to_string(found) +
               ", reference " + std::to_string(expected);
    }
    return {};
  }

 private:
  /// Bounds the error of a sum of k products of normal numbers. Tensor cores truncate: each addition of a group of at
  /// least 8 products loses up to a unit of a float32 partial sum, a few times sqrt(k), always in the same direction.
  double sum_error() const {
    const auto k = static_cast<double>(p_.k);
    return (k / 8 + 16) * 0x1p-23 * 4 * std::sqrt(k);
  }
  MatmulFactors factors() const { return p_.factors.value_or(MatmulFactors{}); }
  std::byte* element(const Checked& one) const {
    return static_cast<std::byte*>(c_.address()) + (one.row * p_.c_row_stride + one.col) * size_of(p_.out_dtype);
  }
  double read(const Checked& one) const {
    std::array<std::byte, 8> value{};
    device_.copy_to_host(value.data(), element(one), static_cast<std::size_t>(size_of(p_.out_dtype)));
    return read_element(p_.out_dtype, value.data(), 0);
  }
  void write_nan(const Checked& one) const {
    std::array<std::byte, 8> value{};
    value.fill(std::byte{0xFF});
    device_.copy_to_device(element(one), value.data(), static_cast<std::size_t>(size_of(p_.out_dtype)));
  }

  /// Chooses elements, the first and the last one included, and computes their sums.
  std::vector<Checked> chosen_elements() const {
    std::vector<Checked> chosen;
    for (int i = 0; i < checked_elements; ++i) {
      const std::uint64_t drawn = scramble(static_cast<std::uint64_t>(i));
      const auto in = [&](std::int64_t size, std::uint64_t bits) {
        return i == 0 ? 0 : i == 1 ? size - 1 : static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(size));
      };
      Checked& one = chosen.emplace_back(Checked{in(p_.m, drawn >> 32), in(p_.n, drawn & 0xffffffffU)});
      for (std::int64_t k = 0; k < p_.k; ++k)
        one.sum += a_.at(p_.transpose_a ? k * p_.a_row_stride + one.row : one.row * p_.a_row_stride + k) *
                   b_.at(p_.transpose_b ? one.col * p_.b_row_stride + k : k * p_.b_row_stride + one.col);
    }
    return chosen;
  }

  const MatmulProblem& p_;
  Device& device_;
  RandomArray a_, b_, c_, bias_;
  DeviceMemory factors_, workspace_;
  std::vector<Checked> checked_;
};

/// One algorithm in the running.
struct Contestant {
  const PreparedMatmul* product = nullptr;
  std::size_t number = 0;
  Trial trial{};
  std::vector<double> samples_us{};
};

void time_rounds(std::vector<Contestant*> live, const Trials& trials, Device& device, const Budget& budget) {
  for (int round = 0; round <= max_rounds; ++round) {
    if (round > min_rounds && budget.elapsed_s() > budget.total_s()) break;
    std::vector<std::function<void(Stream)>> works;
    for (const Contestant* one : live)
      works.emplace_back([&trials, one](Stream stream) { trials.enqueue(*one->product, stream); });
    const std::vector<double> times_us = device.time_us(works, true);
    if (round == 0) continue;  // kernels were loaded, and clocks were low
    for (std::size_t i = 0; i < live.size(); ++i) live[i]->samples_us.push_back(times_us.at(i));
    if (round != min_rounds) continue;
    double best_us = median(live.front()->samples_us);
    for (const Contestant* one : live) best_us = std::min(best_us, median(one->samples_us));
    std::erase_if(
        live, [&](const Contestant* one) { return one != live.front() && median(one->samples_us) > drop_ratio * best_us; });
  }
}

/// Returns the number of the fastest right algorithm, and stores the record.
std::size_t measure(const std::vector<std::unique_ptr<PreparedMatmul>>& products, const MatmulProblem& problem,
                    const TuningKey& key, Device& device, Cache& cache, double measure_s) {
  const Budget budget(measure_s, nullptr);
  Trials trials(problem, device);
  std::vector<Contestant> all;
  for (std::size_t i = 0; i < products.size(); ++i) {
    Contestant& one = all.emplace_back(Contestant{products[i].get(), i});
    one.trial.config = config_of(i).text();
    try {
      one.trial.reason = trials.first_failure(*products[i]);
      one.trial.status = one.trial.reason.empty() ? "timed" : "wrong";
    } catch (const Error& error) {
      require_working(device, "algorithm " + std::to_string(i), error.what());
      one.trial.reason = error.what();
      one.trial.status = "launch_failed";
    }
  }
  std::vector<Contestant*> right;
  for (Contestant& one : all)
    if (one.trial.status == "timed") right.push_back(&one);
  if (right.empty())
    throw Error(ErrorCode::verification_failed, "all ", products.size(), " algorithms of ", key.template_digest,
                " fail for ", problem.text(), ": ", all.front().trial.reason);
  time_rounds(right, trials, device, budget);
  std::vector<Timing> timings;
  std::vector<Contestant*> finalists;
  for (Contestant* one : right) {
    const Timing timing = summarize(one->samples_us);
    one->trial.median_us = timing.median_us;
    one->trial.mad_us = timing.mad_us;
    one->trial.samples = timing.samples;
    if (timing.samples <= min_rounds && timing.samples < static_cast<int>(right.front()->samples_us.size())) {
      one->trial.status = "dropped";
      continue;
    }
    timings.push_back(timing);
    finalists.push_back(one);
  }
  const Contestant& winner = *finalists[choose_winner(timings)];
  TuningRecord record;
  record.key = key;
  record.config = winner.trial.config;
  record.median_us = winner.trial.median_us;
  record.mad_us = winner.trial.mad_us;
  record.default_median_us = right.front()->trial.median_us;
  record.problem = problem.text();
  record.effort = name(Effort::full);
  record.provenance = device.provenance();
  record.provenance["library"] = key.template_digest;
  record.created_unix_s = static_cast<std::int64_t>(std::time(nullptr));
  std::vector<Trial> results;
  for (const Contestant& one : all) results.push_back(one.trial);
  cache.store_record(record, results);
  return winner.number;
}

}  // namespace

std::unique_ptr<PreparedMatmul> choose_product(MatmulLibrary& library, const MatmulProblem& problem, Device& device,
                                               Cache& cache, const ProductOptions& options) {
  const bool may_choose = options.reads_records || options.measure_s > 0;
  std::vector<std::unique_ptr<PreparedMatmul>> products = library.prepare(problem, may_choose ? algorithms_tried : 1);
  std::size_t chosen = 0;
  if (products.size() > 1) {
    const TuningKey key = key_of(library, problem, device);
    std::optional<std::size_t> known;
    if (const auto record = options.reads_records ? cache.find_record(key) : std::nullopt)
      known = recorded(record->config, products.size());
    if (known) {
      chosen = *known;
    } else if (options.measure_s > 0) {
      try {
        chosen = measure(products, problem, key, device, cache, options.measure_s);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory) throw;
      }
    }
  }
  return std::move(products[chosen]);
}

}  // namespace tunesmith
