#pragma once
// The components of an Engine. Internal: included by api/, the command line, tests and benchmarks of this repository.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "cache/cache.h"
#include "jit/compiler.h"
#include "jit/cuda/library_search.h"
#include "jit/device.h"
#include "jit/matmul.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tuner/build.h"
#include "tunesmith/engine.h"

namespace tunesmith {

class CompileAhead;
class ConfigChoices;
class ProblemLog;
struct PlanTable;

/// The winner of tuning one problem.
struct Tuned {
  Config config;
  double wall_s = 0;
  double compile_ms = 0;      ///< of all candidates that this process compiled
  std::string disturbance{};  ///< disturbance_text() of the record
};
/// Tunes a problem and stores the record; nullopt if the engine should go on without tuning.
using Tuner = std::function<std::optional<Tuned>(const ParsedProblem& problem)>;

struct Engine::Parts {
  EngineOptions options;
  TemplateSet templates;
  std::shared_ptr<Device> device;  // shared with plans, which may outlive the engine
  std::shared_ptr<Compiler> compiler;
  std::shared_ptr<Cache> cache;
  /// Seconds from any origin, for tune_share.
  std::function<double()> now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  std::unique_ptr<PlanTable> plans;  // made by the engine, like choices
  std::unique_ptr<ConfigChoices> choices;
  std::unique_ptr<CompileAhead> compile_ahead;
  std::unique_ptr<ProblemLog> problem_log;  // null: none
  Tuner tuner;  ///< empty: see EngineOptions::isolate_tuning. The command line always tunes in a child process.
  double tuner_start_s = 10;  ///< time for starting a tuning process, see tuning_limit_s()

  Workbench bench() const { return {*device, *compiler, *cache, templates}; }
  /// Opens the matrix library on the first call, because loading cuBLASLt is slow. Thread-safe; throws what open_matmul()
  /// does.
  std::shared_ptr<MatmulLibrary> matmul();

  Parts();
  ~Parts();

 private:
  std::mutex matmul_mutex_;
  std::shared_ptr<MatmulLibrary> matmul_;
};

/// Opens the device named by a text such as "auto", "cuda:1" or "host". If auto falls back to the host executor, `log`
/// receives the reason. Throws Error(no_device | invalid_argument).
std::shared_ptr<Device> open_device(const std::string& text,
                                    const std::function<void(EngineOptions::Level, const std::string&)>& log = {});
/// Opens the compiler: NVRTC for a GPU, the system's C++ compiler for the host executor.
std::shared_ptr<Compiler> open_compiler(DeviceInfo::Kind kind, const EngineOptions& options);
/// Opens the matrix library: cuBLASLt for a GPU, plain loops for the host executor. Throws Error(not_found) if cuBLASLt is
/// not found.
std::shared_ptr<MatmulLibrary> open_matmul(const std::shared_ptr<Device>& device, const EngineOptions& options);
/// Returns the folders to search for CUDA libraries.
CudaFolders cuda_folders(const EngineOptions& options);

}  // namespace tunesmith
