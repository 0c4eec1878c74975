#pragma once
// A scripted operation, compiler and device, with which the tuner runs without a GPU. The operation is y = x + 1; the script
// determines the behavior of each configuration.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "core/half.h"
#include "tests/tuner/fields_op.h"
#include "tuner/tune.h"

namespace tunesmith::fakes {

struct AddOneParams {
  const float* x;
  float* y;
  std::int64_t rows, cols, row_stride;
};

/// The kernel of configuration width=N. `launch` counts its executions outside of timing.
using Kernel = std::function<void(const AddOneParams&, int launch)>;

inline void add_one(const AddOneParams& p) {
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (std::int64_t c = 0; c < p.cols; ++c) p.y[r * p.row_stride + c] = p.x[r * p.row_stride + c] + 1;
}

struct Script {
  double time_us = 10;
  double noise = 0;  ///< relative standard deviation; one sample in ten takes 1.5 times as long
  Kernel kernel = [](const AddOneParams& p, int) { add_one(p); };
  bool compile_fails = false, launch_fails = false, kills_device = false;
  bool timed_launch_fails = false;
  int occupancy = 4;
  std::string log{};  ///< of the compilation
  int spill_bytes = 0;
};

/// The operation. Row 0 is NaN, where an output that was filled with NaN and not written could pass.
class AddOneOp : public FieldsOp {
 public:
  std::vector<int> widths{1, 2, 4, 8};  ///< search space of Effort::full; Effort::quick omits the last one
  std::set<int> keeping{};              ///< widths whose configurations of the search space load with evict_last
  int verification_rows = 19;
  int spill_bound = std::numeric_limits<int>::max();
  bool cols_in_buckets = false;  ///< as if cols were not compiled in
  std::string problem_class = "f32", related_class{};

  std::string_view name() const noexcept override { return "add_one"; }
  std::string_view summary() const noexcept override { return "y = x + 1"; }
  std::vector<FieldInfo> problem_fields() const override { return {}; }
  std::vector<FieldInfo> config_fields() const override { return {}; }
  std::vector<std::string> templates() const override { return {"add_one"}; }
  Problem normal(const Problem& problem) const override {
    Problem normal{"add_one", {}};
    normal.fields.set("rows", problem.fields.integer("rows"));
    normal.fields.set("cols", problem.fields.integer("cols"));
    const auto optional = [&](const char* field, std::int64_t value) {
      normal.fields.set(field, problem.fields.contains(field) ? problem.fields.integer(field) : value);
    };
    optional("row_stride", problem.fields.integer("cols"));
    optional("alignment", 16);
    optional("in_place", 0);
    return normal;
  }
  std::vector<ArrayInfo> arrays(const Problem& problem) const override {
    ArrayInfo x;
    x.name = "x";
    x.input = true;
    x.shape = {problem.fields.integer("rows"), problem.fields.integer("cols")};
    x.strides = {problem.fields.integer("row_stride"), 1};
    x.alignment = problem.fields.integer("alignment");
    ArrayInfo y = x;
    y.name = "y";
    y.input = false;
    y.output = true;
    if (problem.fields.integer("in_place") != 0) y.in_place_of = "x";
    return {x, y};
  }
  KeyParts key(const Problem& problem) const override {
    return {problem_class, problem.fields.integer("cols"),
            static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(problem.fields.integer("rows")))),
            cols_in_buckets, related_class};
  }
  Cost cost(const Problem& problem) const override {
    const auto bytes = static_cast<double>(problem.fields.integer("rows") * problem.fields.integer("cols") * 4);
    return {bytes, bytes, bytes / 4};
  }
  static Config config(int width) { return {{{"variant", std::string("plain")}, {"width", std::int64_t{width}}}}; }
  Config default_config(const Problem&, const DeviceInfo&) const override { return config(1); }
  Config complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const override {
    Config complete = config(1);
    for (const auto& [field, value] : partial.fields) complete.fields.set(field, value);
    if (const std::string reason = why_invalid(problem, device, complete); !reason.empty())
      throw Error(ErrorCode::invalid_argument, reason);
    return complete;
  }
  std::vector<Config> search_space(const Problem&, const DeviceInfo&, Effort effort) const override {
    std::vector<Config> space;
    for (const int width : widths) {
      space.push_back(config(width));
      if (keeping.contains(width)) space.back().fields.set("load", "evict_last");
    }
    if (effort == Effort::quick && space.size() > 1) space.pop_back();
    return space;
  }
  std::string why_invalid(const Problem& problem, const DeviceInfo&, const Config& config) const override {
    const Value* width = config.fields.find("width");
    if (width == nullptr) return {};  // completed with the default
    const auto* number = std::get_if<std::int64_t>(width);
    if (number == nullptr || *number < 1) return "width is not a number from 1";
    if (*number > problem.fields.integer("cols")) return "width is more than cols";
    return config.fields.size() > 2u + config.fields.contains("load") ? "too many fields" : "";
  }
  int max_spill_bytes(const Problem&, const Config&) const override { return spill_bound; }
  Config read(const Config& config) const override {
    Config complete = AddOneOp::config(1);
    for (const auto& [field, value] : config.fields) complete.fields.set(field, value);
    if (complete.fields.size() != config.fields.size()) throw Error(ErrorCode::invalid_argument, "a field is missing");
    return complete;
  }
  SourceParts source_parts(const Problem&, const Config& config) const override {
    SourceParts parts;
    parts.includes = {"add_one/add_one.cuh"};
    parts.constants = "constants: " + config.text() + ";\n";
    parts.kernels = "kernel\n";
    return parts;
  }
  LaunchPlan launch_plan(const Problem& problem, const Config&, const DeviceInfo&) const override {
    LaunchPlan plan;
    const AddOneParams params{nullptr, nullptr, problem.fields.integer("rows"), problem.fields.integer("cols"),
                              problem.fields.integer("row_stride")};
    plan.params.resize(sizeof params);
    std::memcpy(plan.params.data(), &params, sizeof params);
    for (const ArrayInfo& array : arrays(problem))
      plan.pointers.push_back({array.name, static_cast<std::uint32_t>(8 * plan.pointers.size()),
                               static_cast<std::uint32_t>(array.alignment), array.extent_bytes(), array.output, false,
                               array.in_place_of.empty() ? -1 : 0});
    if (params.rows > 0) plan.kernels.emplace_back().entry = "add_one";
    return plan;
  }
  Problem verification_problem(const Problem& problem) const override {
    Problem small = problem;
    small.fields.set("rows", std::int64_t{verification_rows});
    return small;
  }
  void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                   std::span<const HostArray> host) const override {
    over_elements(problem, [&](std::int64_t row, std::int64_t column, std::int64_t at) {
      const auto number = static_cast<float>((seed * 7 + static_cast<std::uint64_t>(row * 31 + column)) % 1000);
      write_element(DType::f32, host[0].data, at, kind == InputKind::edge_cases && row == 0 ? NAN : number);
    });
  }
  CheckResult check(const Problem& problem, std::span<const HostArray> host, std::int64_t max_rows) const override {
    CheckResult result;
    result.total_rows = problem.fields.integer("rows");
    result.checked_rows = std::min(max_rows, result.total_rows);
    over_elements(problem, [&](std::int64_t row, std::int64_t column, std::int64_t at) {
      const double x = read_element(DType::f32, host[0].data, at);
      const double y = read_element(DType::f32, host[1].data, at);
      if (y == x + 1 || (std::isnan(x) && std::isnan(y)) || !result.passed) return;
      result.passed = false;
      result.first_failure = "y[" + std::to_string(row) + "," + std::to_string(column) + "] is wrong";
    });
    return result;
  }

 private:
  template <typename Visit>
  static void over_elements(const Problem& problem, const Visit& visit) {
    for (std::int64_t r = 0; r < problem.fields.integer("rows"); ++r)
      for (std::int64_t c = 0; c < problem.fields.integer("cols"); ++c)
        visit(r, c, r * problem.fields.integer("row_stride") + c);
  }
};

inline Problem add_one_problem(std::int64_t rows, std::int64_t cols,
                               std::initializer_list<std::pair<std::string, Value>> more = {}) {
  Problem problem{"add_one", {{"rows", rows}, {"cols", cols}}};
  for (const auto& [field, value] : more) problem.fields.set(field, value);
  return AddOneOp().normalize(problem);
}

using Scripts = std::map<int, Script>;

inline int width_in(const std::string& text) { return std::stoi(text.substr(text.rfind("width=") + 6)); }

class ScriptedCompiler : public Compiler {
 public:
  explicit ScriptedCompiler(const Scripts& scripts) : scripts_(scripts) {}
  mutable std::atomic<int> compilations{0};
  mutable std::atomic<int> at_once{0}, max_at_once{0};
  std::chrono::milliseconds takes{0};
  std::string version = "1";
  bool is_absent = false, has_no_identity = false;

  std::string identity() const override {
    if (has_no_identity) throw Error(ErrorCode::no_compiler, "there is none");
    return "scripted " + version;
  }
  std::string options(const Arch& arch) const override { return "-arch=" + tunesmith::name(arch); }
  std::vector<Arch> supported_archs() const override { return {}; }
  std::string assembly(const CompileRequest&) const override { return {}; }
  Binary compile(const CompileRequest& request) const override {
    if (is_absent) throw Error(ErrorCode::no_compiler, "there is none");
    ++compilations;
    const int now = ++at_once;
    for (int most = max_at_once; now > most && !max_at_once.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(takes);
    --at_once;
    const auto script = scripts_.find(width_in(request.source));
    if (script != scripts_.end() && script->second.compile_fails)
      throw Error(ErrorCode::compile_failed, request.name, " does not compile").with_compilation("line 1", "", "");
    Binary binary;
    binary.image = request.source;
    binary.resources["add_one"] = {.registers = 40, .spill_load_bytes = 8};
    if (script != scripts_.end()) {
      binary.log = script->second.log;
      binary.resources["add_one"].spill_store_bytes = script->second.spill_bytes;
    }
    return binary;
  }

 private:
  const Scripts& scripts_;
};

class ScriptedDevice : public Device {
 public:
  explicit ScriptedDevice(const Scripts& scripts) : scripts_(scripts), info_(generic_device({9, 0, 'a'})) {}
  ~ScriptedDevice() override { EXPECT_EQ(allocated_bytes, 0) << "the tuner keeps memory"; }

  DeviceInfo& facts() { return info_; }
  bool cannot_time = false;
  std::int64_t free_bytes = std::int64_t{1} << 40;
  std::int64_t allocated_bytes = 0, max_allocated_bytes = 0;
  std::map<std::string, std::string> facts_now{{"driver", "1"}, {"device_uuid", "a"}};
  double slowdown_per_call = 1;  ///< of every kernel, from one measurement to the next
  std::function<void()> on_timing;
  DeviceConditions conditions_now{};

  std::vector<int> timed;                ///< widths in the order in which they were timed
  std::vector<std::vector<int>> rounds;  ///< the same, one entry per call of time_us
  AddOneParams timed_params{};           ///< of the last timed launch
  bool timed_on_nan = false;
  bool flushed_always = true;

  const DeviceInfo& info() const noexcept override { return info_; }
  std::map<std::string, std::string> provenance() const override { return facts_now; }
  DeviceConditions conditions() const override { return conditions_now; }
  void* allocate(std::size_t bytes) override {
    if (allocated_bytes + static_cast<std::int64_t>(bytes) > free_bytes)
      throw Error(ErrorCode::out_of_memory, bytes, " bytes are not there");
    void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    sizes_[memory] = static_cast<std::int64_t>(bytes);
    allocated_bytes += static_cast<std::int64_t>(bytes);
    max_allocated_bytes = std::max(max_allocated_bytes, allocated_bytes);
    return memory;
  }
  void release(void* memory) noexcept override {
    allocated_bytes -= sizes_[memory];
    std::free(memory);
  }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override { std::memcpy(device, host, bytes); }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override { std::memcpy(host, device, bytes); }
  void copy_on_device(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* device, unsigned char byte, std::size_t bytes) override { std::memset(device, byte, bytes); }
  void synchronize(Stream) override {
    if (is_dead_) throw Error(ErrorCode::device_failed, "the context is lost");
  }
  bool is_capturing(Stream) const override { return false; }

  std::shared_ptr<Module> load(const Binary& binary) override {
    return std::make_shared<Image>(*this, width_in(binary.image));
  }
  std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch&) override {
    return std::make_unique<Launcher>(*this, dynamic_cast<const Image&>(module).width);
  }
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) override {
    if (cannot_time) throw Error(ErrorCode::unsupported, "no clock here");
    flushed_always = flushed_always && flush_l2;
    if (on_timing) on_timing();
    speed_ *= slowdown_per_call;
    is_timing_ = true;
    times_us_.clear();
    rounds.emplace_back();
    for (const auto& work : works) {
      try {
        work(nullptr);
      } catch (...) {
        is_timing_ = false;
        throw;
      }
    }
    is_timing_ = false;
    return times_us_;
  }

  int times_timed(int width) const { return static_cast<int>(std::count(timed.begin(), timed.end(), width)); }

 private:
  struct Image : Module {
    Image(const ScriptedDevice& of, int w) : device(of), width(w) {}
    int occupancy(const KernelLaunch&) const override { return device.script(width).occupancy; }
    const ScriptedDevice& device;
    int width;
  };
  struct Launcher : PreparedKernel {
    Launcher(ScriptedDevice& of, int w) : device(of), width(w) {}
    void enqueue(const void* params, Stream) const override { device.launch(width, params); }
    ScriptedDevice& device;
    int width;
  };

  const Script& script(int width) const {
    static const Script ordinary;
    const auto found = scripts_.find(width);
    return found == scripts_.end() ? ordinary : found->second;
  }

  void launch(int width, const void* packed) {
    const Script& script_of_width = script(width);
    AddOneParams params;
    std::memcpy(&params, packed, sizeof params);
    if (script_of_width.kills_device) is_dead_ = true;
    if (is_dead_ || script_of_width.launch_fails || (is_timing_ && script_of_width.timed_launch_fails))
      throw Error(ErrorCode::device_failed, "launch of width ", width, " failed");
    if (!is_timing_) return script_of_width.kernel(params, launches_[width]++);
    timed.push_back(width);
    rounds.back().push_back(width);
    timed_params = params;
    for (std::int64_t r = 0; r < params.rows; ++r)
      timed_on_nan = timed_on_nan || std::isnan(params.x[r * params.row_stride]);
    const double noise = script_of_width.noise * std::fabs(normal_(random_));
    const double outlier = script_of_width.noise > 0 && uniform_(random_) < 0.1 ? 1.5 : 1.0;
    times_us_.push_back(script_of_width.time_us * (1 + noise) * outlier * speed_);
  }

  const Scripts& scripts_;
  DeviceInfo info_;
  std::map<void*, std::int64_t> sizes_;
  std::map<int, int> launches_;
  std::vector<double> times_us_;
  std::mt19937 random_{12345};
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double speed_ = 1;
  bool is_timing_ = false, is_dead_ = false;
};

/// A folder that the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-tuner-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The tuner's inputs, with one script.
class TunerTest : public ::testing::Test {
 protected:
  TunerTest()
      : templates(write_templates("one")),
        cache({.file = folder.path() / "cache.db", .system_files = {}, .warn = {}, .remote = {}}) {}

  TemplateSet write_templates(const std::string& kernel, const std::string& sibling = "sibling") {
    const std::filesystem::path root = folder.path() / "templates";
    for (const auto& [file, text] : {std::pair<std::string, std::string>("device/platform.cuh", "platform"),
                                     {"add_one/add_one.cuh", "#include \"device/platform.cuh\"\n" + kernel},
                                     {"add_one/add_one_online.cuh", sibling}}) {
      std::filesystem::create_directories((root / file).parent_path());
      std::ofstream(root / file) << text << "\n";
    }
    return TemplateSet::from_folder(root);
  }

  Workbench bench() { return {device, compiler, cache, templates}; }
  Executable executable(const Problem& of, int width) {
    Binary binary;
    binary.image = AddOneOp::config(width).text();
    return {device, device.load(binary), op.parse(of)->launch_plan(AddOneOp::config(width), device.info())};
  }
  std::string status(const TuneResult& result, int width) const {
    for (const Trial& trial : result.trials)
      if (trial.config == AddOneOp::config(width).text()) return trial.status;
    return "none";
  }
  const Trial& trial(const TuneResult& result, int width) const {
    for (const Trial& candidate : result.trials)
      if (candidate.config == AddOneOp::config(width).text()) return candidate;
    throw Error(ErrorCode::not_found, "no trial of width ", width);
  }
  static int winner(const TuneResult& result) { return width_in(result.record.config); }

  TemporaryFolder folder;
  Scripts scripts;
  AddOneOp op;
  ScriptedCompiler compiler{scripts};
  ScriptedDevice device{scripts};
  TemplateSet templates;
  Cache cache;
  Problem problem = add_one_problem(64, 100);
};

/// Runs `body`, which must throw Error with this code and a message that contains this text.
template <typename Body>
void expect_error(const Body& body, ErrorCode code, std::string_view text) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown; expected " << name(code);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos) << error.what();
  }
}

}  // namespace tunesmith::fakes
