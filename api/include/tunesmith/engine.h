#pragma once
// The library's front door.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/attention.h"
#include "tunesmith/cross_entropy.h"
#include "tunesmith/description.h"
#include "tunesmith/device_info.h"
#include "tunesmith/dispatch.h"
#include "tunesmith/error.h"
#include "tunesmith/problem.h"
#include "tunesmith/softmax.h"
#include "tunesmith/types.h"

namespace tunesmith {

class Executable;

/// Where other software says that CUDA is, and what changes NVRTC's output behind the caller's back.
struct CudaEnvironment {
  std::vector<std::filesystem::path> toolkits;         ///< CUDA_HOME, CUDA_PATH
  std::vector<std::filesystem::path> library_folders;  ///< LD_LIBRARY_PATH
  std::vector<std::filesystem::path> python_folders;   ///< VIRTUAL_ENV: pip's nvidia-cuda-nvrtc may be in it
  /// NVRTC_APPEND_FLAGS, which NVRTC reads by itself: part of every binary's identity, so it must be what the process has.
  std::string nvrtc_append_flags;

  static CudaEnvironment of_process();
};

/// How an Engine is set up. Fields left at their defaults are right for most programs.
struct EngineOptions {
  /// "auto" (the first GPU, else the host executor), "cuda", "cuda:N" or "host". Default auto.
  std::string device = "auto";
  /// When the engine may measure. Production services that must not spend time on it: Mode::replay. Default tune.
  Mode mode = Mode::tune;
  /// Candidates looked at when tuning on first use. Default quick: at most about 2 s for one key on 16 cores.
  Effort effort = Effort::quick;
  /// Wall seconds for tuning one key. Default 10.
  double tune_budget_s = 10;
  /// Cache file; created on the first write. Default: $XDG_CACHE_HOME/tunesmith/cache.db, else ~/.cache/tunesmith/cache.db.
  /// Empty: nothing persists.
  std::filesystem::path cache_file = default_cache_file();
  /// Read-only cache files that are looked at after cache_file. Default none.
  std::vector<std::filesystem::path> system_caches;
  /// The read-only cache file that is looked at last: tuned results that ship with the library, so that GPUs of those models
  /// need no tuning. Default: share/tunesmith/shipped.db of the installation or build that the library lies in, else empty.
  /// Empty: none.
  std::filesystem::path shipped_cache = default_shipped_cache();
  /// Folders searched for libnvrtc and its builtins before the standard places. Default none.
  std::vector<std::filesystem::path> cuda_folders;
  /// What the environment says about CUDA. Few programs set it.
  CudaEnvironment cuda_environment = CudaEnvironment::of_process();
  /// Folder to render templates from instead of the embedded ones: for kernel work. Default empty.
  std::filesystem::path templates_folder;
  /// Where the source of a failed compilation is written. Default empty: the system's temporary folder.
  std::filesystem::path dump_folder;
  /// Receives warnings and, at level info, one line per compile and tune. May be called from any thread. Default: silent.
  /// It must not call the engine.
  enum class Level : std::uint8_t { info, warning };
  std::function<void(Level, const std::string&)> log;

  /// $XDG_CACHE_HOME/tunesmith/cache.db, else $HOME/.cache/tunesmith/cache.db, else empty.
  static std::filesystem::path default_cache_file();
  /// Found relative to the library or program that holds this code; empty when it is not there.
  static std::filesystem::path default_shipped_cache();
  /// Defaults overridden by TUNESMITH_CACHE, TUNESMITH_SYSTEM_CACHE (':'-separated; set but empty: no system_caches and no
  /// shipped_cache), TUNESMITH_MODE, TUNESMITH_LOG ("info", "warning": to stderr), TUNESMITH_DUMP_DIR, TUNESMITH_TEMPLATES,
  /// TUNESMITH_CUDA (':'-separated folders).
  /// The library reads the environment here and for the defaults of cache_file and cuda_environment, nowhere else. Throws
  /// Error(invalid_argument) naming the variable and its value.
  static EngineOptions from_environment();
};

/// One array of a launch by name.
struct NamedArray {
  std::string_view name;
  const void* address;  ///< device memory; written to when the array is an output
};

/// A problem made ready: compiled, loaded, bound. Cheap to copy (shared ownership; keeps its engine's device alive);
/// immutable and thread-safe.
class Plan {
 public:
  /// Starts the kernels on `stream` and returns. `arrays` are device addresses in the order of arrays(); they must be valid
  /// for the problem's shapes and strides until the work is done. Safe during CUDA graph capture. Throws
  /// Error(invalid_argument) for null, misaligned or partly overlapping arrays, Error(device_failed) when the driver
  /// refuses. Costs a few nanoseconds over cuLaunchKernel: no allocation, no lock.
  void launch(std::span<void* const> arrays, Stream stream = nullptr) const;
  /// The same for operations of two arrays.
  void launch(const void* x, void* y, Stream stream = nullptr) const;
  /// The same by name, in any order; optional arrays may be left out. Error(invalid_argument) for a name that arrays() does
  /// not have. Slower than by order: names are compared.
  void launch(std::initializer_list<NamedArray> arrays, Stream stream = nullptr) const;
  void launch(std::span<const NamedArray> arrays, Stream stream = nullptr) const;

  /// The arrays that launch() takes, in its order: names, dtypes, shapes, strides, alignment, which are optional.
  std::span<const ArrayInfo> arrays() const noexcept;
  const Problem& problem() const noexcept;  ///< normalized: every default filled in
  const Config& config() const noexcept;
  Origin origin() const noexcept;
  std::int64_t nearest_n_cols() const noexcept;  ///< n_cols of the record, when origin() is nearest; else 0
  const std::string& source() const noexcept;    ///< the CUDA source, exactly as compiled
  bool compiled() const noexcept;                ///< the compiler ran for it in this process (else the binary was loaded)
  double compile_ms() const noexcept;            ///< 0 unless compiled(); all candidates when origin() is tuned
  double tune_s() const noexcept;                ///< wall seconds spent tuning; 0 unless origin() is tuned
  int occupancy() const noexcept;                ///< resident blocks per multiprocessor of the main kernel
  std::string resources() const;                 ///< "registers=40,static_smem_bytes=0,..." of the main kernel; may be empty
  double bytes() const noexcept;  ///< least memory traffic of one launch; of attention, as if mask_mod hid nothing
  double flops() const noexcept;  ///< least arithmetic of one launch, likewise

  struct State;
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  /// What it shares, for the C API, tools and benchmarks of this repository.
  const State& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// What prepare() may be told beyond the problem.
struct PrepareOptions {
  /// A partial or complete configuration to use as it is, e.g. parse_fields("variant=online,threads=512", "config").
  Config config{};
  /// Instead of the engine's mode.
  std::optional<Mode> mode{};
};

/// Owns a device, a compiler and a cache. Thread-safe: any number of threads may call any member at once; one key is
/// prepared once, the others wait for it. Create one per device and keep it.
class Engine {
 public:
  /// Opens the device; never opens the compiler (that happens on the first compilation). Throws Error(no_device) when a GPU
  /// was asked for and there is none, Error(invalid_argument) for malformed options.
  explicit Engine(EngineOptions options = EngineOptions::from_environment());
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Selects, compiles or loads, tunes when the mode says so, and binds. Plans are remembered: asking again for an equal
  /// problem returns the same plan. `stream` only tells whether a capture is under way: then a plan that does not exist yet
  /// is Error(capturing). Throws Error(invalid_argument | unsupported | compile_failed | no_compiler | ...).
  Plan prepare(const Problem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  template <DescribedProblem Typed>
  Plan prepare(const Typed& problem, const PrepareOptions& options = {}, Stream stream = nullptr) {
    return prepare(to_problem(problem), options, stream);
  }

  /// One-shot call of any operation. The first call for a problem prepares a plan (seconds when it tunes, milliseconds from a
  /// warm cache), later ones look it up without lock or allocation and launch on `stream`. The addresses say whether the
  /// output is in place and how arrays are aligned, whatever the problem's fields say; an optional array that is given
  /// switches its option on. Error(invalid_argument) for an array that is missing or that the problem does not have. Other
  /// errors are those of prepare() and Plan::launch(). A problem that holds source code of the user's is looked up by the
  /// whole text, under a lock, in tens of microseconds: launch a prepared plan in a loop.
  template <DescribedProblem Typed>
  void run(const Typed& problem, const typename Typed::Arrays& arrays, Stream stream = nullptr);

  /// run() of a softmax without other arrays.
  void softmax(const void* x, void* y, SoftmaxProblem problem, Stream stream = nullptr) {
    problem.logarithm = false;
    run(problem, {.x = x, .y = y}, stream);
  }
  void log_softmax(const void* x, void* y, SoftmaxProblem problem, Stream stream = nullptr) {
    problem.logarithm = true;
    run(problem, {.x = x, .y = y}, stream);
  }

  /// Cross-entropy that checks its targets: run(), and where the problem has check_targets the call waits for the stream and
  /// throws Error(invalid_argument) that names the first row whose target is neither a class nor ignore_index, its target,
  /// and how many there are. For debugging, and not during a capture (Error(capturing)). To look later instead, leave
  /// check_targets out and give bad_targets.
  void run_checked(const CrossEntropyProblem& problem, CrossEntropyArrays arrays, Stream stream = nullptr);
  void run_checked(const CrossEntropyCombineProblem& problem, CrossEntropyCombineArrays arrays, Stream stream = nullptr);

  /// Any operation, looked up by value; slower than the typed calls (text keys), for tools and rarely called code.
  void run(const Problem& problem, std::span<void* const> arrays, Stream stream = nullptr);

  /// Waits for the work on `stream`, for programs without a CUDA runtime at hand; the same as cuStreamSynchronize. Throws
  /// Error(device_failed) when a kernel faulted. Not during a capture.
  void synchronize(Stream stream = nullptr);

  const DeviceInfo& device() const noexcept;
  const EngineOptions& options() const noexcept;

  struct Parts;
  /// The engine's components, for the command line, tests and benchmarks of this repository.
  Parts& parts() noexcept;
  /// An engine of components put together by hand.
  explicit Engine(std::unique_ptr<Parts> parts);

 private:
  /// The plan of an equal call before; nullptr: none.
  const Executable* find_call(std::span<const std::uint64_t> key, std::uint64_t hash) const noexcept;
  /// Checks the call's arrays, prepares, and remembers the plan under `key`; an empty key is not remembered.
  const Executable& prepare_call(std::span<const std::uint64_t> key, std::uint64_t hash, const Description& call,
                                 const Problem& problem, Stream stream);
  static void enqueue(const Executable& executable, std::span<void* const> arrays, Stream stream);

  std::unique_ptr<Parts> parts_;
};

template <DescribedProblem Typed>
void Engine::run(const Typed& asked, const typename Typed::Arrays& arrays, Stream stream) {
  const Typed problem = with_addresses(asked, arrays);
  KeyWriter<key_words<Typed>()> key(problem.op());
  describe(problem, arrays, key);
  const std::uint64_t hash = key.hash();
  const Executable* executable = key.has_text() ? nullptr : find_call(key.words(), hash);
  if (executable == nullptr) [[unlikely]]
    executable = &prepare_call(key.has_text() ? std::span<const std::uint64_t>() : key.words(), hash,
                               Description(problem, arrays), to_problem(problem), stream);
  AddressList addresses;
  describe(problem, arrays, addresses);
  enqueue(*executable, addresses.span(), stream);
}

}  // namespace tunesmith
