#pragma once
// The main header: Engine, Plan and their options.

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

/// Environment variables of other software that affect where CUDA is found and what NVRTC generates.
struct CudaEnvironment {
  std::vector<std::filesystem::path> toolkits;         ///< CUDA_HOME, CUDA_PATH
  std::vector<std::filesystem::path> library_folders;  ///< LD_LIBRARY_PATH
  std::vector<std::filesystem::path> python_folders;   ///< VIRTUAL_ENV, where pip may have installed nvidia-cuda-nvrtc
  /// NVRTC_APPEND_FLAGS. NVRTC reads it itself, so this must be the value in the process; it is part of a binary's identity.
  std::string nvrtc_append_flags;

  static CudaEnvironment of_process();
};

/// Options of an Engine. The defaults are right for most programs.
struct EngineOptions {
  /// "auto" (the first GPU, or else the host executor), "cuda", "cuda:N" or "host". Default auto.
  std::string device = "auto";
  /// When the engine may tune. Use Mode::replay in production services that must not spend time on it. Default tune.
  Mode mode = Mode::tune;
  /// Size of the search space when tuning on first use. Default quick: at most about 2 s per key on 16 cores.
  Effort effort = Effort::quick;
  /// Wall time for tuning one key, in seconds. Default 10.
  double tune_budget_s = 10;
  /// Cache file, created on the first write. Default: $XDG_CACHE_HOME/tunesmith/cache.db, else ~/.cache/tunesmith/cache.db.
  /// If empty, results are kept in memory only.
  std::filesystem::path cache_file = default_cache_file();
  /// Read-only cache files, searched after cache_file. Default none.
  std::vector<std::filesystem::path> system_caches;
  /// Read-only cache file with tuning results shipped with the library, searched last, so that common GPUs need no tuning.
  /// Default: share/tunesmith/shipped.db of the library's installation or build, else empty. Empty disables it.
  std::filesystem::path shipped_cache = default_shipped_cache();
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

  /// Returns $XDG_CACHE_HOME/tunesmith/cache.db, else $HOME/.cache/tunesmith/cache.db, else an empty path.
  static std::filesystem::path default_cache_file();
  /// Finds the shipped cache relative to the library or program that contains this code; empty if it is missing.
  static std::filesystem::path default_shipped_cache();
  /// Returns the defaults, overridden by the environment variables TUNESMITH_CACHE, TUNESMITH_SYSTEM_CACHE (files separated
  /// by
  /// ':'; an empty value disables system_caches and shipped_cache), TUNESMITH_MODE, TUNESMITH_LOG ("info" or "warning", to
  /// stderr), TUNESMITH_DUMP_DIR, TUNESMITH_TEMPLATES and TUNESMITH_CUDA (folders separated by ':'). The library reads the
  /// environment only here and for the defaults of cache_file and cuda_environment. Throws Error(invalid_argument) with the
  /// variable and its value.
  static EngineOptions from_environment();
};

/// A prepared problem: compiled, loaded and bound. Cheap to copy (shared ownership; keeps the engine's device alive).
/// Immutable and thread-safe.
class Plan {
 public:
  /// Launches the kernels on `stream` and returns. `arrays` are device addresses in the operation's order, without the
  /// arrays of options that the problem does not use:
  ///   softmax, log_softmax     x, y, mask, valid_cols
  ///   their gradients          dy, y, dx, mask, valid_cols
  ///   cross_entropy            logits, targets, weight, dloss, loss, lse, z_loss, nll, predicted, correct, bad_targets,
  ///   dlogits cross_entropy_backward   logits, targets, lse, dloss, nll, weight, dlogits cross_entropy_shard      logits,
  ///   targets, weight, parts cross_entropy_combine    parts, targets, loss, lse, z_loss, nll, predicted, correct,
  ///   bad_targets attention                q, k, v, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_kv, arrays of score_mod
  ///   and mask_mod,
  ///                            mask_tiles, o, lse (may be null)
  /// The arrays must remain valid until the work is complete. Safe during CUDA graph capture. Takes a few nanoseconds more
  /// than cuLaunchKernel: no allocation, no lock. Throws Error(invalid_argument) for null, misaligned or partly overlapping
  /// arrays and Error(device_failed) if a driver call fails.
  void launch(std::span<void* const> arrays, Stream stream = nullptr) const;
  /// Launches an operation with two arrays.
  void launch(const void* x, void* y, Stream stream = nullptr) const;

  const Problem& problem() const noexcept;  ///< normalized: every default filled in
  const Config& config() const noexcept;
  Origin origin() const noexcept;
  std::int64_t nearest_n_cols() const noexcept;  ///< n_cols of the record, if origin() is nearest, otherwise 0
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
  /// Returns the shared state, for the C API, tools and benchmarks of this repository.
  const State& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// Options of Engine::prepare.
struct PrepareOptions {
  /// Partial or complete configuration to use instead of selecting one, e.g. parse_fields("variant=online,threads=512",
  /// "config").
  Config config{};
  /// Overrides the engine's mode.
  std::optional<Mode> mode{};
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
  Plan prepare(const SoftmaxProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const SoftmaxBackwardProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyBackwardProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyShardProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const CrossEntropyCombineProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);
  Plan prepare(const AttentionProblem& problem, const PrepareOptions& options = {}, Stream stream = nullptr);

  /// One-shot calls. The first call for a problem prepares a plan (seconds if it tunes, milliseconds with a warm cache);
  /// later ones look it up without lock or allocation and launch on `stream`. The problem's alignment, in_place and
  /// logarithm fields are ignored; the addresses and the function determine them. `arrays` are those of the problem's
  /// options. Throws Error(invalid_argument) if an array is missing, or not null although its option is off, and the errors
  /// of prepare() and Plan::launch().
  void softmax(const void* x, void* y, const SoftmaxProblem& problem, const SoftmaxArrays& arrays, Stream stream = nullptr);
  void softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream = nullptr);
  void log_softmax(const void* x, void* y, const SoftmaxProblem& problem, const SoftmaxArrays& arrays,
                   Stream stream = nullptr);
  void log_softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream = nullptr);

  /// One-shot gradients: reads dy and y, writes dx, which may be dy. Otherwise like softmax().
  void softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                        const SoftmaxArrays& arrays, Stream stream = nullptr);
  void softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                        Stream stream = nullptr);
  void log_softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                            const SoftmaxArrays& arrays, Stream stream = nullptr);
  void log_softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                            Stream stream = nullptr);

  /// One-shot cross-entropy. Non-null optional arrays enable their options; dlogits enables the gradient, in place if it
  /// equals logits. The problem's alignments are ignored. Throws Error(invalid_argument) if an array that the problem
  /// requires is null. With check_targets, for debugging, the call waits for the stream and throws Error(invalid_argument)
  /// with the first row whose target is neither a class nor ignore_index, its target, and the number of such rows; during a
  /// capture it throws Error(capturing). To check targets later, pass bad_targets instead.
  void cross_entropy(const void* logits, const CrossEntropyArrays& arrays, const CrossEntropyProblem& problem,
                     Stream stream = nullptr);
  /// Computes the gradient from lse, with or without nll and weights; dlogits may be logits.
  void cross_entropy_backward(const void* logits, const CrossEntropyBackwardArrays& arrays,
                              const CrossEntropyBackwardProblem& problem, Stream stream = nullptr);
  /// The two steps of a loss whose vocabulary is distributed over devices; check_targets as for cross_entropy().
  void cross_entropy_shard(const void* logits, const CrossEntropyShardArrays& arrays,
                           const CrossEntropyShardProblem& problem, Stream stream = nullptr);
  void cross_entropy_combine(const void* parts, const CrossEntropyCombineArrays& arrays,
                             const CrossEntropyCombineProblem& problem, Stream stream = nullptr);

  /// One-shot attention. Non-null alibi_slopes, sinks and cu_seqlens enable their options; lse is written if it is not null.
  /// The problem's alignments are ignored. Throws Error(invalid_argument) if an array that the problem requires is null.
  /// With score_mod or mask_mod, each call looks up its plan by the whole source, under a lock, which takes tens of
  /// microseconds: in a loop, launch a prepared plan instead.
  void attention(const void* q, const void* k, const void* v, const AttentionArrays& arrays, const AttentionProblem& problem,
                 Stream stream = nullptr);

  /// Runs any operation. Slower than the typed calls, because it looks up the plan by text.
  void run(const Problem& problem, std::span<void* const> arrays, Stream stream = nullptr);

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
  std::unique_ptr<Parts> parts_;
};

}  // namespace tunesmith
