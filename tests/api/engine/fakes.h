#pragma once
// A scripted device and compiler, with which the whole engine runs without a GPU and without real compilations.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "api/engine/parts.h"
#include "core/hash.h"
#include "fleet/remote.h"

namespace tunesmith::fakes {

/// Returns the source itself as the image.
class ScriptedCompiler : public Compiler {
 public:
  std::atomic<int> compilations{0};
  std::atomic<bool> fails{false};
  std::chrono::milliseconds takes{0};

  std::string identity() const override { return "scripted"; }
  std::string options(const Arch& arch) const override { return "-arch=" + name(arch); }
  std::vector<Arch> supported_archs() const override { return {{9, 0, 'a'}}; }
  Binary compile(const CompileRequest& request) const override {
    ++const_cast<ScriptedCompiler*>(this)->compilations;
    std::this_thread::sleep_for(takes);
    if (fails)
      throw Error(ErrorCode::compile_failed, request.name, " does not compile")
          .with_compilation("line 1: no", options(request.arch), "dumped.cu");
    Binary binary;
    binary.image = request.source;
    binary.resources["softmax"] = {.registers = 40};
    binary.compile_ms = 5;
    return binary;
  }
  std::string assembly(const CompileRequest&) const override { return "ptx"; }
};

/// The parameters of row kernels (RowParams in templates/row/row.cuh).
struct SoftmaxParams {
  const float* input[2];
  float* output;
  const void *mask, *valid_cols, *workspace;
  std::int64_t rows, input_stride[2], output_stride;
  std::int64_t mask_strides[5], valid_cols_group, groups;
  float scale, log2e_high, log2e_low, far_below, large_maximum;
  std::int32_t cols;
};
static_assert(sizeof(SoftmaxParams) == 160);

/// A fake GPU. Computes f32 softmax without options on the CPU instead of running the generated kernel; kernels of other
/// operations do nothing. Measured times are made up.
class ScriptedDevice : public Device {
 public:
  explicit ScriptedDevice(DeviceInfo::Kind kind = DeviceInfo::Kind::cuda) : info_(generic_device({9, 0, 'a'})) {
    info_.kind = kind;
    info_.name = "scripted";
  }

  std::atomic<int> loads{0}, launches{0}, measurements{0}, allocations{0};
  std::atomic<std::size_t> allocated_bytes{0};
  std::atomic<bool> capturing{false}, rejects_images{false};
  std::string driver = "1";

  const DeviceInfo& info() const noexcept override { return info_; }
  std::map<std::string, std::string> provenance() const override { return {{"driver", driver}}; }
  void* allocate(std::size_t bytes) override {
    ++allocations;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    allocated_bytes += malloc_usable_size(memory);
    return memory;
  }
  void release(void* memory) noexcept override {
    --allocations;
    allocated_bytes -= malloc_usable_size(memory);
    std::free(memory);
  }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override { std::memcpy(device, host, bytes); }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override { std::memcpy(host, device, bytes); }
  void copy_on_device(void* to, const void* from, std::size_t bytes) override { std::memmove(to, from, bytes); }
  void fill(void* device, unsigned char byte, std::size_t bytes) override { std::memset(device, byte, bytes); }

  std::shared_ptr<Module> load(const Binary& binary) override {
    if (rejects_images.exchange(false)) throw Error(ErrorCode::device_failed, "the image is for another device");
    ++loads;
    return std::make_shared<LoadedImage>(binary.image);
  }
  std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch& launch) override {
    if (launch.entry == "softmax")
      return std::make_unique<SoftmaxKernel>(dynamic_cast<const LoadedImage&>(module), launches);
    return std::make_unique<IdleKernel>(launches);
  }
  std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap&, const std::string&) override {
    return std::make_unique<EmptyTensorMap>();
  }
  void synchronize(Stream) override {}
  bool is_capturing(Stream) const override { return capturing; }
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool) override {
    if (info_.kind == DeviceInfo::Kind::host) throw Error(ErrorCode::unsupported, "the host executor never claims a speed");
    measurements += static_cast<int>(works.size());
    for (const auto& work : works) work(nullptr);
    return std::vector<double>(works.size(), 10.0);
  }

 private:
  struct LoadedImage : Module {
    explicit LoadedImage(const std::string& source) {
      const auto member = [&](const std::string& name) {
        const std::size_t at = source.find("\n    ." + name + " = ");
        return at == std::string::npos ? std::int64_t{0} : std::stoll(source.substr(at + name.size() + 9));
      };
      cols = member("cols");
      min_cols = member("min_cols");
    }
    int occupancy(const KernelLaunch&) const override { return 4; }
    std::int64_t cols = 0, min_cols = 0;
  };

  struct IdleKernel : PreparedKernel {
    explicit IdleKernel(std::atomic<int>& counter) : launched(counter) {}
    void enqueue(const void*, Stream) const override { ++launched; }
    std::atomic<int>& launched;
  };

  struct EmptyTensorMap : PreparedTensorMap {
    void encode(void*, void*) const override {}
  };

  struct SoftmaxKernel : PreparedKernel {
    SoftmaxKernel(const LoadedImage& image, std::atomic<int>& counter)
        : max_cols(image.cols), min_cols(image.min_cols == 0 ? image.cols : image.min_cols), launched(counter) {}
    void enqueue(const void* params, Stream) const override {
      ++launched;
      SoftmaxParams p;
      std::memcpy(&p, params, sizeof p);
      if (p.cols < min_cols || p.cols > max_cols) throw Error(ErrorCode::device_failed, "the kernel is for other widths");
      for (std::int64_t r = 0; r < p.rows; ++r)
        softmax_row(p.input[0] + r * p.input_stride[0], p.output + r * p.output_stride, p.cols);
    }
    static void softmax_row(const float* x, float* y, std::int64_t cols) {
      double largest = -INFINITY, sum = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        largest = std::isnan(x[c]) || std::isnan(largest) ? NAN : std::max<double>(largest, x[c]);
      for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(x[c] - largest);
      for (std::int64_t c = 0; c < cols; ++c)
        y[c] = std::isfinite(largest) ? static_cast<float>(std::exp(x[c] - largest) / sum) : NAN;
    }
    std::int64_t max_cols, min_cols;
    std::atomic<int>& launched;
  };

  DeviceInfo info_;
};

/// An engine with the scripted device and compiler, and its log.
struct FakeEngine {
  explicit FakeEngine(EngineOptions options = {}, DeviceInfo::Kind kind = DeviceInfo::Kind::cuda,
                      std::filesystem::path cache_file = {}) {
    device = std::make_shared<ScriptedDevice>(kind);
    compiler = std::make_shared<ScriptedCompiler>();
    options.cache_file = cache_file;
    options.log = [this](EngineOptions::Level level, const std::string& line) {
      const std::lock_guard lock(log_mutex);
      log.push_back((level == EngineOptions::Level::info ? "info: " : "warning: ") + line);
    };
    auto parts = std::make_unique<Engine::Parts>();
    parts->options = options;
    parts->device = device;
    parts->compiler = compiler;
    CacheOptions cache;
    cache.file = std::move(cache_file);
    cache.system_files = options.system_caches;
    if (!options.remote.empty())
      cache.remote = fleet::open_remote({options.remote, cache.file, [log = options.log](const std::string& text) {
                                           log(EngineOptions::Level::warning, text);
                                         }});
    parts->cache = std::make_shared<Cache>(cache);
    engine = std::make_unique<Engine>(std::move(parts));
  }

  int logged(std::string_view text) {
    const std::lock_guard lock(log_mutex);
    return static_cast<int>(std::count_if(log.begin(), log.end(),
                                          [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  std::shared_ptr<ScriptedDevice> device;
  std::shared_ptr<ScriptedCompiler> compiler;
  std::mutex log_mutex;
  std::vector<std::string> log;
  std::unique_ptr<Engine> engine;
};

inline EngineOptions in_mode(Mode mode) {
  EngineOptions options;
  options.mode = mode;
  return options;
}

/// Runs `body`, which must throw Error with this code and with all of these words in its message.
template <typename Body>
void expect_error(const Body& body, ErrorCode code, std::initializer_list<std::string_view> words) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown; expected " << name(code);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string_view word : words)
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos)
          << "'" << word << "' is not in: " << error.what();
  }
}

}  // namespace tunesmith::fakes
