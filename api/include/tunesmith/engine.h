#pragma once
// The library's front door.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tunesmith/attention.h"
#include "tunesmith/cross_entropy.h"
#include "tunesmith/device_info.h"
#include "tunesmith/error.h"
#include "tunesmith/problem.h"
#include "tunesmith/softmax.h"
#include "tunesmith/types.h"

namespace tunesmith {

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

/// A problem made ready: compiled, loaded, bound. Cheap to copy (shared ownership; keeps its engine's device alive);
/// immutable and thread-safe.
class Plan {
 public:
  /// Starts the kernels on `stream` and returns. `arrays` are device addresses in the operation's order: softmax and
  /// log_softmax x, y, their gradients dy, y, dx; then the mask and valid_cols, each if the problem's options have it.
  /// cross_entropy logits, targets, weight, dloss, loss, lse, z_loss, nll, predicted, correct, bad_targets, dlogits;
  /// cross_entropy_backward logits, targets, lse, dloss, nll, weight, dlogits; cross_entropy_shard logits, targets, weight,
  /// parts; cross_entropy_combine parts and, from targets to bad_targets, what cross_entropy has but for weight and dloss;
  /// of all these weight, cross_entropy's dloss and dlogits, z_loss, nll, predicted, correct and bad_targets each if the
  /// problem's options have it. attention q, k, v; then alibi_slopes, sinks, cu_seqlens_q with cu_seqlens_kv, arrays that
  /// score_mod and mask_mod read, and mask_tiles, each if the problem has it; then o, and lse, which may be null. They must
  /// be valid for the problem's shapes and strides until the work is done. Safe during CUDA graph capture. Throws
  /// Error(invalid_argument) for null, misaligned or partly overlapping arrays, Error(device_failed) when the driver
  /// refuses. Costs a few nanoseconds over cuLaunchKernel: no allocation, no lock.
  void launch(std::span<void* const> arrays, Stream stream = nullptr) const;
  /// The same for operations of two arrays.
  void launch(const void* x, void* y, Stream stream = nullptr) const;

  const Problem& problem() const noexcept;  ///< normalized: every default filled in
  const Config& config() const noexcept;
  Origin origin() const noexcept;
  std::int64_t nearest_n_cols() const noexcept;  ///< n_cols of the record, when origin() is nearest; else 0
  /// The CUDA source, exactly as compiled. Rendered or read from the cache on the first call, then kept.
  const std::string& source() const;
  bool compiled() const noexcept;      ///< the compiler ran for it in this process (else the binary was loaded)
  double compile_ms() const noexcept;  ///< 0 unless compiled(); all candidates when origin() is tuned
  double tune_s() const noexcept;      ///< wall seconds spent tuning; 0 unless origin() is tuned
  int occupancy() const noexcept;      ///< resident blocks per multiprocessor of the main kernel
  std::string resources() const;       ///< "registers=40,static_smem_bytes=0,..." of the main kernel; may be empty
  double bytes() const noexcept;       ///< least memory traffic of one launch; of attention, as if mask_mod hid nothing
  double flops() const noexcept;       ///< least arithmetic of one launch, likewise

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
  Plan prepare(const SoftmaxProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const SoftmaxBackwardProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyBackwardProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyShardProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyCombineProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const AttentionProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);

  /// One-shot calls: contiguous rows unless strides are given. The first call for a shape and its options prepares a plan
  /// (seconds when it tunes, milliseconds from a warm cache), later ones look it up without lock or allocation and launch on
  /// `stream`. The problem's alignment, in_place and logarithm fields are ignored: the addresses and the call's name tell.
  /// `arrays` are what the problem's options name; Error(invalid_argument) for one that is missing, or that is given while
  /// its option is off. Other errors are those of prepare() and Plan::launch().
  void softmax(const void* x, void* y, const SoftmaxProblem& problem, const SoftmaxArrays& arrays, Stream stream = nullptr);
  void softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream = nullptr);
  void log_softmax(const void* x, void* y, const SoftmaxProblem& problem, const SoftmaxArrays& arrays,
                   Stream stream = nullptr);
  void log_softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream = nullptr);

  /// One-shot gradients: dy and y in, dx out; dx may be dy. Otherwise as above.
  void softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                        const SoftmaxArrays& arrays, Stream stream = nullptr);
  void softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                        Stream stream = nullptr);
  void log_softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                            const SoftmaxArrays& arrays, Stream stream = nullptr);
  void log_softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                            Stream stream = nullptr);

  /// One-shot cross-entropy; plans are found as above. `arrays` are what the call reads and writes: an optional array that
  /// is given switches its option on, dlogits the gradient, in place where it is logits; the problem's alignments count for
  /// nothing. Error(invalid_argument) for an array that is missing, or that the problem asks for and the call does not give.
  /// A problem with check_targets makes the call wait for the stream and throw Error(invalid_argument) that names the first
  /// row whose target is neither a class nor ignore_index, its target, and how many there are: for debugging, and not during
  /// a capture (Error(capturing)). To look later instead, leave check_targets out and give bad_targets.
  void cross_entropy(const void* logits, const CrossEntropyArrays& arrays, const CrossEntropyProblem& problem,
                     Stream stream = nullptr);
  /// The gradient from lse, with or without nll and weights; dlogits may be logits.
  void cross_entropy_backward(const void* logits, const CrossEntropyBackwardArrays& arrays,
                              const CrossEntropyBackwardProblem& problem, Stream stream = nullptr);
  /// Both halves of a loss whose vocabulary is spread over devices; check_targets as for cross_entropy.
  void cross_entropy_shard(const void* logits, const CrossEntropyShardArrays& arrays,
                           const CrossEntropyShardProblem& problem, Stream stream = nullptr);
  void cross_entropy_combine(const void* parts, const CrossEntropyCombineArrays& arrays,
                             const CrossEntropyCombineProblem& problem, Stream stream = nullptr);

  /// One-shot attention; plans are found as above. alibi_slopes, sinks and cu_seqlens that are given switch their options
  /// on, and lse is written where it is given; the problem's alignments count for nothing. Error(invalid_argument) for an
  /// array that is missing, or that the problem asks for and the call does not give. With score_mod or mask_mod each call
  /// looks its plan up by the whole text, under a lock, for tens of microseconds: launch a prepared plan in a loop.
  void attention(const void* q, const void* k, const void* v, const AttentionArrays& arrays, const AttentionProblem& problem,
                 Stream stream = nullptr);

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
  std::unique_ptr<Parts> parts_;
};

}  // namespace tunesmith
