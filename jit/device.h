#pragma once
// Binary -> launches. Implementations: jit/cuda/device.h and jit/host/device.h.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/launch.h"
#include "jit/compiler.h"
#include "tunesmith/device_info.h"
#include "tunesmith/error.h"

namespace tunesmith {

/// A loaded binary. The device must outlive it.
class Module {
 public:
  virtual ~Module() = default;
  /// Returns the resident blocks of this launch per multiprocessor; 0 if it cannot run. The host executor returns 1.
  virtual int occupancy(const KernelLaunch& launch) const = 0;
};

/// A kernel bound to its geometry. Launching it needs no look-up and no allocation. Thread-safe.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  /// Launches the kernel. Asynchronous on CUDA; synchronous on the host executor. Throws Error(device_failed).
  virtual void enqueue(const void* params, Stream stream) const = 0;
};

/// A tensor map that lacks only the array's address. Thread-safe.
class PreparedTensorMap {
 public:
  virtual ~PreparedTensorMap() = default;
  /// Writes LaunchPlan::TensorMap::bytes bytes to `map`. `map` is aligned to 64 bytes, `array` to 16. Takes no lock and does
  /// not allocate. Throws Error(device_failed).
  virtual void encode(void* map, void* array) const = 0;
};

/// Conditions that may disturb a measurement. Unknown facts are 0 or empty.
struct DeviceConditions {
  int sm_clock_mhz = 0;
  std::vector<std::string> slowed_by;  ///< why clocks are lower than asked for: "power cap", "temperature"
  /// Processes with a context on the device, sorted: not this one, its ancestors, its descendants, nor other workers of its
  /// command.
  std::vector<int> other_processes;
};

/// A GPU, or the host executor. Thread-safe. On CUDA, calls use the thread's current context if that belongs to this device,
/// otherwise the device's primary context.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const noexcept = 0;
  /// Returns facts that can change within a device class and outdate a record: driver version, clocks, power limit.
  virtual std::map<std::string, std::string> provenance() const = 0;
  /// Returns the present conditions of measurements. Takes milliseconds the first time; nothing is known by default.
  virtual DeviceConditions conditions() const { return {}; }

  /// Allocates device memory, aligned to 256 bytes. Throws Error(out_of_memory) with the size.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// Copies from host memory; returns when the copy is complete.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, std::size_t bytes) = 0;
  /// Enqueues the same copy on `stream`; the copy baseline is measured with it. A synchronous device need not override it.
  virtual void copy_async(void* to, const void* from, std::size_t bytes, Stream) { copy_on_device(to, from, bytes); }
  virtual void fill(void* device, unsigned char byte, std::size_t bytes) = 0;
  /// Enqueues the same fill on `stream`.
  virtual void fill_async(void* device, unsigned char byte, std::size_t bytes, Stream) { fill(device, byte, bytes); }

  /// Loads a binary. Throws Error(device_failed) for an image that this device cannot run.
  virtual std::shared_ptr<Module> load(const Binary& binary) = 0;
  /// Resolves the entry and sets its attributes (shared-memory limit, cluster) once. `module` must outlive the result.
  virtual std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch& launch) = 0;

  /// Prepares a tensor map that has passed TensorMaps' checks. `array` is the name of its array, for errors. Throws
  /// Error(unsupported) on a device without TMA: a GPU before sm_90.
  virtual std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap& map, const std::string& array) {
    static_cast<void>(map);
    throw Error(ErrorCode::unsupported, "array '", array, "' is loaded through a tensor map, which ", info().name,
                " does not support; configurations with tensor maps and wgmma run on sm_90a GPUs and on the host executor");
  }

  virtual void synchronize(Stream stream) = 0;
  /// Reports whether the stream is being captured into a CUDA graph. If so, nothing may be compiled, tuned, loaded or
  /// synchronized.
  virtual bool is_capturing(Stream stream) const = 0;

  /// Runs the works one after the other on an internal stream and returns the device time of each in microseconds. If
  /// flush_l2 is set, flushes the last-level cache before each (by writing more than its size), which also hides launch
  /// latency. That evicts lines that earlier calls loaded with an evict_last policy, but none of this call's. Holds the
  /// device's measuring lock, which excludes measurements of other processes. Throws Error(unsupported) on the host
  /// executor, whose times say nothing about a GPU.
  virtual std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) = 0;
};

}  // namespace tunesmith
