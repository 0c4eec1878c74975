#pragma once
// What an Engine is made of. Internal: included by api/, the command line, tests and benchmarks of this repository.

#include <memory>
#include <mutex>

#include "cache/cache.h"
#include "jit/compiler.h"
#include "jit/cuda/library_search.h"
#include "jit/device.h"
#include "jit/matmul.h"
#include "templates/template_set.h"
#include "tuner/build.h"
#include "tunesmith/engine.h"

namespace tunesmith {

struct PlanTable;

struct Engine::Parts {
  EngineOptions options;
  TemplateSet templates;
  std::shared_ptr<Device> device;  // shared with the plans, which may outlive the engine
  std::shared_ptr<Compiler> compiler;
  std::shared_ptr<Cache> cache;
  std::unique_ptr<PlanTable> plans;

  Workbench bench() const { return {*device, *compiler, *cache, templates}; }
  /// Opened when it is first asked for, because loading cuBLASLt takes long. Thread-safe; throws what open_matmul() does.
  std::shared_ptr<MatmulLibrary> matmul();

  Parts();
  ~Parts();

 private:
  std::mutex matmul_mutex_;
  std::shared_ptr<MatmulLibrary> matmul_;
};

/// The device that a text such as "auto", "cuda:1" or "host" names. Throws Error(no_device | invalid_argument). `log` hears
/// why auto fell back to the host executor.
std::shared_ptr<Device> open_device(const std::string& text,
                                    const std::function<void(EngineOptions::Level, const std::string&)>& log = {});
/// NVRTC for a GPU, the system's C++ compiler for the host executor.
std::shared_ptr<Compiler> open_compiler(DeviceInfo::Kind kind, const EngineOptions& options);
/// cuBLASLt for a GPU, plain loops for the host executor. Throws Error(not_found) when there is no cuBLASLt.
std::shared_ptr<MatmulLibrary> open_matmul(const std::shared_ptr<Device>& device, const EngineOptions& options);
/// Where CUDA libraries are looked for.
CudaFolders cuda_folders(const EngineOptions& options);

}  // namespace tunesmith
