#pragma once
// The loaded CUDA driver: its functions, and its errors as exceptions.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "jit/cuda/driver_api.h"
#include "tunesmith/error.h"

namespace tunesmith {

/// Facts about a driver library, also about one that is too old for Driver::open(), for `tunesmith doctor`.
struct DriverFacts {
  std::string path{};                 ///< empty: no library could be opened
  std::string loader_error{};         ///< the loader's message for the first place; empty if the library was opened
  int api_version = 0;                ///< 13000 for CUDA 13.0; 0 if unknown
  cuda::Result init = cuda::success;  ///< of cuInit
  std::string init_error{};           ///< name and description of `init`; empty if it is success
  int gpus = 0;                       ///< number of GPUs that it sees
};
/// Opens the driver library, in the places of Driver::open(), and calls cuInit. Never throws.
DriverFacts probe_driver(const std::filesystem::path& library = {});

/// The driver's functions. Immutable and thread-safe. The library stays loaded until the process ends.
class Driver {
 public:
  /// Opens the driver library and resolves every function; does not initialize CUDA. `library` replaces the standard
  /// places. Throws Error(no_device) with the places tried, or the function that an old driver lacks.
  static std::shared_ptr<const Driver> open(const std::filesystem::path& library = {});

  /// Calls cuInit and returns the number of GPUs; may be repeated. Throws Error(no_device) if CUDA can use no GPU.
  int initialize() const;
  /// Returns the CUDA version that the driver implements: 13000 for 13.0.
  int api_version() const;
  const std::string& path() const noexcept { return path_; }

#define TUNESMITH_MEMBER(member, name, symbol, version, signature) cuda::Result(*member) signature = nullptr;
  struct Functions {
    using Result = cuda::Result;
    using DeviceHandle = cuda::DeviceHandle;
    using Address = cuda::Address;
    using ContextHandle = cuda::ContextHandle;
    using LibraryHandle = cuda::LibraryHandle;
    using KernelHandle = cuda::KernelHandle;
    using FunctionHandle = cuda::FunctionHandle;
    using StreamHandle = cuda::StreamHandle;
    using EventHandle = cuda::EventHandle;
    using DeviceAttribute = cuda::DeviceAttribute;
    using FunctionAttribute = cuda::FunctionAttribute;
    using CaptureStatus = cuda::CaptureStatus;
    using CaptureMode = cuda::CaptureMode;
    using LaunchConfig = cuda::LaunchConfig;
    using Uuid = cuda::Uuid;
    using TensorMap = cuda::TensorMap;
    using TensorMapType = cuda::TensorMapType;
    using TensorMapInterleave = cuda::TensorMapInterleave;
    using TensorMapSwizzle = cuda::TensorMapSwizzle;
    using TensorMapPromotion = cuda::TensorMapPromotion;
    using TensorMapFill = cuda::TensorMapFill;
    TUNESMITH_CUDA_FUNCTIONS(TUNESMITH_MEMBER)
  };
#undef TUNESMITH_MEMBER

  const Functions* operator->() const noexcept { return &functions_; }

  /// Throws Error(out_of_memory | no_device | capturing | device_failed) unless `result` is success. The message holds the
  /// call, the driver's name and description of the error, and the purpose of the call ("while ...", streamed parts).
  template <typename... Doing>
  void check(cuda::Result result, const char* call, const Doing&... doing) const {
    if (result == cuda::success) [[likely]]
      return;
    std::ostringstream text;
    static_cast<void>((text << ... << doing));
    fail(result, call, text.str());
  }
  [[noreturn]] void fail(cuda::Result result, const char* call, const std::string& doing) const;
  /// Returns the name and description of an error, e.g. "CUDA_ERROR_INVALID_VALUE (invalid argument)".
  std::string describe(cuda::Result result) const;

 private:
  Driver() = default;

  Functions functions_;
  std::string path_;
};

}  // namespace tunesmith
