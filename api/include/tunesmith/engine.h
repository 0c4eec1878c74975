#pragma once
// The main header: Engine, Plan and their options.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "tunesmith/attention.h"
#include "tunesmith/attention_backward.h"
#include "tunesmith/cross_entropy.h"
#include "tunesmith/device_info.h"
#include "tunesmith/dispatch.h"
#include "tunesmith/error.h"
#include "tunesmith/problem.h"
#include "tunesmith/softmax.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Environment variables of other software that affect where CUDA is found and what NVRTC generates.
struct CudaEnvironment {
  std::vector<std::filesystem::path> toolkits;         ///< CUDA_HOME, CUDA_PATH
  std::vector<std::filesystem::path> library_folders;  ///< LD_LIBRARY_PATH
  std::vector<std::filesystem::path> python_folders;   ///< VIRTUAL_ENV, where pip may have installed nvidia-cuda-nvrtc
  /// NVRTC_APPEND_FLAGS. NVRTC reads it itself, so this must be the value in the process; it is part of a binary's identity.
  std::string nvrtc_append_flags;

  static CudaEnvironment of_process();
};

/// A step of tuning one problem, for progress bars.
struct TuningProgress {
  const Problem& problem;  ///< normalized
  /// Candidates that were compiled and verified so far, then rounds of timing. `total` is an upper bound; both are 0 before
  /// the number of candidates is known.
  int done, total;
  const std::string& what;  ///< such as "verified", "7 candidates in the running"
  bool finished;            ///< the last call for this problem, whether it was tuned or not
};

/// Options of an Engine. The defaults are right for most programs.
struct EngineOptions {
  /// "auto" (the first GPU, or else the host executor), "cuda", "cuda:N" or "host". Default auto.
  std::string device = "auto";
  /// When the engine may tune. Use Mode::replay in production services that must not spend time on it, and Mode::later if
  /// they have idle times in which they call tune_pending(). Default tune.
  Mode mode = Mode::tune;
  /// Size of the search space when tuning on first use. Default quick: at most about 2 s per key on 16 cores.
  Effort effort = Effort::quick;
  /// Wall time for tuning one key, in seconds. Default 10.
  double tune_budget_s = 10;
  /// Share of the time since the engine was created that its tuning on first use may take; each engine of a process has its
  /// own. A key beyond it uses the nearest record or the default configuration at once and is tuned when the share allows;
  /// see Engine::tuning(). 1: no bound. Default 0.1.
  double tune_share = 0.1;
  /// Seconds of tuning that are allowed before the share counts. Default 5.
  double tune_allowance_s = 5;
  /// Tunes every key in a child process. By default, only problems with user functions (score_mod, mask_mod) are tuned in
  /// one, because they may fault or never end, and a fault makes the CUDA context of its process useless. A child process
  /// costs some 0.5 s and 0.5 GB of device memory while it runs. Default false.
  bool isolate_tuning = false;
  /// The command-line tool, which tunes in a child process. Default: found relative to the library's installation or build.
  /// If empty, problems that need a child process are not tuned on first use.
  std::filesystem::path tuner_program = default_tuner_program();
  /// File to which the engine appends the problems that are prepared, with counts; `tunesmith prewarm --spec` reads it.
  /// Problems with the same tuning key and source are one entry; plans with a pinned configuration are left out. Of one-shot
  /// calls, the first one of a shape counts. Default empty: none.
  std::filesystem::path problem_log;
  /// Number of plans, and of one-shot calls, that the engine keeps; beyond it, the least recently used ones are dropped.
  /// Plans that the caller holds stay valid. At least 8. Default 16384.
  std::size_t plan_capacity = 16384;
  /// Whether operations over rows get a kernel for each n_cols (exact), for buckets of n_cols (capacity), or for a bucket
  /// until an n_cols is used often or has tuning records (automatic, the default). Use `exact` for plans that are launched
  /// often, and `capacity` if a problem must always give the same bits; docs/widths.md has the details.
  Specialize specialize = Specialize::automatic;
  /// Uses of an n_cols, calls of prepare() and one-shot calls, after which `automatic` compiles a kernel for it: tens of
  /// milliseconds, once for all processes. 0: never. Default 1000.
  std::uint32_t exact_after = 1000;
  /// Threads, at most half of the CPUs. After calls had to wait for kernels of three buckets of n_cols, they compile the
  /// other buckets' kernels into the cache, so that programs with changing widths wait for few. 0: none. Default 8.
  std::uint32_t compile_ahead_jobs = 8;
  /// Cache file, created on the first write. Default: $XDG_CACHE_HOME/tunesmith/cache.db, else ~/.cache/tunesmith/cache.db.
  /// If empty, results are kept in memory only.
  std::filesystem::path cache_file = default_cache_file();
  /// Read-only cache files, searched after cache_file. Default none.
  std::vector<std::filesystem::path> system_caches;
  /// Read-only cache file with tuning results shipped with the library, searched last, so that common GPUs need no tuning.
  /// Default: share/tunesmith/shipped.db of the library's installation or build, else empty. Empty disables it.
  std::filesystem::path shipped_cache = default_shipped_cache();
  /// URL of a cache that several hosts share, on Redis or Valkey: redis://HOST, rediss:// (TLS) or redis+unix:SOCKET, with
  /// options; docs/fleet.md lists them. It is asked once for a record or binary that the files lack, for a limited time
  /// (150 ms, or 350 ms for a binary, and not at all for a while after an error); launches never ask it. Default empty:
  /// none.
  std::string remote;
  /// Folders searched for libnvrtc and its builtins before the standard places. Default none.
  std::vector<std::filesystem::path> cuda_folders;
  /// CUDA settings from the environment. Few programs set it.
  CudaEnvironment cuda_environment = CudaEnvironment::of_process();
  /// Folder of templates to use instead of the embedded ones, for developing kernels. Default empty.
  std::filesystem::path templates_folder;
  /// Folder for the source of a failed compilation. Default empty: the system's temporary folder.
  std::filesystem::path dump_folder;
  /// Receives warnings and, at level info, one line per compilation and tuning. May be called from any thread and must not
  /// call the engine. Default: no log.
  enum class Level : std::uint8_t { info, warning };
  std::function<void(Level, const std::string&)> log;
  /// Receives the steps of tuning on first use and of tune_pending(), some hundred for each key, on the thread that called
  /// the engine; threads that wait for its result get none. Several threads may call it at once, for different keys. It must
  /// not call the engine. An exception cancels the tuning: nothing is stored, the key is pending, and the exception leaves
  /// the engine's function, also on threads that wait for the same key. Default: none.
  std::function<void(const TuningProgress&)> progress;

  /// Returns $XDG_CACHE_HOME/tunesmith/cache.db, else $HOME/.cache/tunesmith/cache.db, else an empty path.
  static std::filesystem::path default_cache_file();
  /// Finds the shipped cache relative to the library or program that contains this code; empty if it is missing.
  static std::filesystem::path default_shipped_cache();
  /// Finds the command-line tool relative to the library or program that contains this code; empty if it is missing.
  static std::filesystem::path default_tuner_program();
  /// Returns the defaults, overridden by the environment variables TUNESMITH_CACHE, TUNESMITH_SYSTEM_CACHE (files separated
  /// by ':'; an empty value disables system_caches and shipped_cache), TUNESMITH_MODE, TUNESMITH_LOG ("info" or "warning",
  /// to stderr), TUNESMITH_DUMP_DIR, TUNESMITH_TEMPLATES, TUNESMITH_CUDA (folders separated by ':'), TUNESMITH_TUNER (the
  /// tuner_program; may be empty), TUNESMITH_PROBLEM_LOG and TUNESMITH_REMOTE. The library reads the environment only here
  /// and for the defaults of cache_file and cuda_environment. Throws Error(invalid_argument) with the variable and its
  /// value.
  static EngineOptions from_environment();
};

/// One array of a launch by name.
struct NamedArray {
  std::string_view name;
  const void* address;  ///< device memory; written to if the array is an output
};

/// A prepared problem: compiled, loaded and bound. Cheap to copy (shared ownership; keeps the engine's device alive).
/// Immutable and thread-safe.
class Plan {
 public:
  /// Launches the kernels on `stream` and returns. `arrays` are device addresses in the order of arrays(); they must remain
  /// valid until the work is complete. Safe during CUDA graph capture. Takes a few nanoseconds more than cuLaunchKernel: no
  /// allocation, no lock; a plan of several kernels with a workspace takes one for the stream. Throws
  /// Error(invalid_argument) for null, misaligned or partly overlapping arrays and Error(device_failed) if a driver call
  /// fails.
  void launch(std::span<void* const> arrays, Stream stream = nullptr) const;
  /// Launches an operation with two arrays.
  void launch(const void* x, void* y, Stream stream = nullptr) const;
  /// Launches with arrays by name, in any order; optional arrays may be omitted. Slower than by order, because it compares
  /// names. Throws Error(invalid_argument) for a name that arrays() does not have, or that comes twice with different
  /// addresses.
  void launch(std::initializer_list<NamedArray> arrays, Stream stream = nullptr) const;
  void launch(std::span<const NamedArray> arrays, Stream stream = nullptr) const;

  /// Returns the arrays that launch() takes, in order: names, dtypes, shapes, strides, alignment, and which are optional.
  std::span<const ArrayInfo> arrays() const;
  const Problem& problem() const noexcept;  ///< normalized: every default filled in
  const Config& config() const noexcept;
  Origin origin() const noexcept;
  std::int64_t capacity() const noexcept;  ///< the most n_cols that the kernel runs; 0 if it is for this problem's alone
  std::int64_t nearest_n_cols() const noexcept;  ///< n_cols of the record, if origin() is nearest, otherwise 0
  /// Returns the CUDA source, exactly as compiled. Rendered or read from the cache on the first call, then kept.
  const std::string& source() const;
  bool compiled() const noexcept;      ///< whether this process ran the compiler for it (otherwise it loaded the binary)
  double compile_ms() const noexcept;  ///< 0 unless compiled(); all candidates when origin() is tuned
  double tune_s() const noexcept;      ///< wall seconds spent tuning; 0 unless origin() is tuned
  int occupancy() const noexcept;      ///< resident blocks per multiprocessor of the main kernel
  std::string resources() const;       ///< "registers=40,static_smem_bytes=0,..." of the main kernel; may be empty
  double bytes() const noexcept;       ///< minimum memory traffic of one launch; for attention, without block mask savings
  double flops() const noexcept;       ///< minimum arithmetic of one launch, likewise
  /// Returns whether equal inputs give equal bits in every run. If not, outputs such as dq of attention_backward may differ
  /// by rounding; the operation then has an option `deterministic`.
  bool deterministic() const noexcept;

  struct State;
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  /// Returns the shared state, for the C API, tools and benchmarks of this repository.
  const State& state() const noexcept { return *state_; }

 private:
  friend class Engine;
  std::shared_ptr<const State> state_;
};

/// Counters of tuning on first use.
struct TuningStatus {
  std::int64_t tuned_keys = 0;     ///< tuning keys measured
  double tune_s = 0;               ///< wall time spent tuning them
  std::int64_t failed_keys = 0;    ///< keys whose tuning failed; they use the nearest record or the default
  std::int64_t pending_keys = 0;   ///< keys that wait because of tune_share, Mode::later or another process
  std::int64_t untuned_plans = 0;  ///< plans prepared for keys that waited
};

/// Options of Engine::prepare.
struct PrepareOptions {
  /// Partial or complete configuration to use instead of selecting one, e.g. parse_fields("variant=two_pass,threads=512",
  /// "config").
  Config config{};
  /// Overrides the engine's mode.
  std::optional<Mode> mode{};
  /// Overrides the engine's choice. Use exact for a plan that the program keeps and launches often.
  std::optional<Specialize> specialize{};
};

/// Owns a device, a compiler and a cache. Thread-safe; if several threads prepare the same plan, one does the work and the
/// others wait. Create one per device and keep it.
class Engine {
 public:
  /// Opens the device. The first compilation opens the compiler. Throws Error(no_device) if the requested GPU does not exist
  /// and Error(invalid_argument) for malformed options.
  explicit Engine(EngineOptions options = EngineOptions::from_environment());
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Prepares a plan: selects a configuration, or tunes in Mode::tune, then compiles or loads it. Plans are cached: an equal
  /// problem returns the same plan. If `stream` is being captured and the plan does not exist yet, throws Error(capturing).
  /// Also throws Error(invalid_argument | unsupported | compile_failed | no_compiler | ...).
  Plan prepare(const Problem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  template <DescribedProblem Typed>
  Plan prepare(const Typed& problem, const PrepareOptions& options = {}, Stream stream = nullptr) {
    return prepare_typed(problem.op(), typeid(Typed), &problem, options, stream);
  }

  /// Launches any operation in one call. The first call for a problem prepares a plan (seconds if it tunes, milliseconds
  /// with a warm cache); later calls look it up without lock or allocation. The addresses determine alignments and whether
  /// an output is in place, whatever the problem's fields say; non-null optional arrays enable their options. Throws
  /// Error(invalid_argument) for an array that is missing or that the problem does not have, and the errors of prepare() and
  /// Plan::launch(). A problem with user source is looked up by its whole source, under a lock, in tens of microseconds:
  /// launch a prepared plan in a loop.
  template <DescribedProblem Typed>
  TUNESMITH_FLATTEN void run(const Typed& problem, const typename Typed::Arrays& arrays, Stream stream = nullptr);

  /// Calls run() for a softmax without a mask or lengths.
  void softmax(const void* x, void* y, SoftmaxProblem problem, Stream stream = nullptr) {
    problem.logarithm = false;
    run(problem, {.x = x, .y = y}, stream);
  }
  void log_softmax(const void* x, void* y, SoftmaxProblem problem, Stream stream = nullptr) {
    problem.logarithm = true;
    run(problem, {.x = x, .y = y}, stream);
  }

  /// Runs a cross-entropy and checks its targets, for debugging: with check_targets, the call waits for the stream and
  /// throws Error(invalid_argument) with the first row whose target is neither a class nor ignore_index, its target, and the
  /// number of such rows; during a capture it throws Error(capturing). To check targets later, pass bad_targets to run()
  /// instead.
  void run_checked(const CrossEntropyProblem& problem, CrossEntropyArrays arrays, Stream stream = nullptr);
  void run_checked(const CrossEntropyCombineProblem& problem, CrossEntropyCombineArrays arrays, Stream stream = nullptr);

  /// Runs any operation. Slower than the typed calls, because it looks up the plan by text.
  void run(const Problem& problem, std::span<void* const> arrays, Stream stream = nullptr);
  /// Does the same with arrays by name, in any order; optional arrays may be omitted. This is LayerNorm, a shipped row
  /// program (row_program.h); `tunesmith run --help` lists all operations:
  ///   engine.run({"layer_norm", {{"rows", 8192}, {"cols", 4096}, {"dtype", "bf16"}}},
  ///              {{"x", x}, {"w", w}, {"b", b}, {"y", y}}, stream);
  void run(const Problem& problem, std::initializer_list<NamedArray> arrays, Stream stream = nullptr);
  void run(const Problem& problem, std::span<const NamedArray> arrays, Stream stream = nullptr);

  /// Returns the counters of tuning on first use.
  TuningStatus tuning() const;
  /// Tunes keys that wait (TuningStatus::pending_keys), whatever tune_share allows: until `budget_s` seconds have passed,
  /// but at least one. Plans that the caller holds keep their configuration; new ones, and one-shot calls, use the results.
  /// Returns the number of keys tuned. Must not be called during a capture. Throws Error(verification_failed).
  std::size_t tune_pending(double budget_s);

  /// Waits for the work on `stream`, like cuStreamSynchronize, for programs that do not use the CUDA runtime. Must not be
  /// called during a capture. Throws Error(device_failed) if a kernel faulted.
  void synchronize(Stream stream = nullptr);

  const DeviceInfo& device() const noexcept;
  const EngineOptions& options() const noexcept;

  struct Parts;
  /// Returns the engine's components, for the command line, tests and benchmarks of this repository.
  Parts& parts() noexcept;
  /// Creates an engine from its components.
  explicit Engine(std::unique_ptr<Parts> parts);

 private:
  /// prepare() of the struct of type `type` that describes the operation `op`.
  Plan prepare_typed(std::string_view op, const std::type_info& type, const void* problem, const PrepareOptions& options,
                     Stream stream);
  /// A one-shot call: its key, and the addresses of all arrays that its problem type has.
  struct Call {
    std::span<const std::uint64_t> key;
    std::span<void* const> addresses;
    std::uint64_t hash;
  };
  /// Launches the plan of an equal call before; returns false if there is none.
  bool run_known(const Call& call, Stream stream) const;
  /// The rest of run(): checks the addresses, prepares a plan, remembers it, launches it.
  template <DescribedProblem Typed, typename Reader>
  [[gnu::noinline, gnu::cold]] void run_first(const Typed& problem, const typename Typed::Arrays& arrays, const Reader& call,
                                              Stream stream);
  /// Bit i of `selected`: the plan takes addresses[i].
  void remember(const Call& call, const Plan& plan, std::uint32_t selected);

  std::unique_ptr<Parts> parts_;
};

template <DescribedProblem Typed>
void Engine::run(const Typed& problem, const typename Typed::Arrays& arrays, Stream stream) {
  static_assert(key_words<Typed>() <= max_key_words);
  constexpr ArrayCounter arrays_of_type = count_arrays<Typed>();
  static_assert(arrays_of_type.described <= CallReader<0>::max_arrays);
  static_assert(arrays_of_type.described + arrays_of_type.of_texts <= max_call_arrays);
  CallReader<key_words<Typed>()> call(problem.op());
  describe(problem, arrays, call);
  if (call.has_text() || !run_known({call.words(), call.addresses(), call.hash()}, stream)) [[unlikely]]
    run_first(problem, arrays, call, stream);
}

template <DescribedProblem Typed, typename Reader>
void Engine::run_first(const Typed& problem, const typename Typed::Arrays& arrays, const Reader& call, Stream stream) {
  const Typed asked = with_addresses(problem, arrays);
  AddressList addresses;
  describe(asked, arrays, addresses);  // checks them before any work
  const Plan plan = prepare(asked, {}, stream);
  if (!call.has_text()) remember({call.words(), call.addresses(), call.hash()}, plan, addresses.selected());
  plan.launch(addresses.span(), stream);
}

}  // namespace tunesmith
