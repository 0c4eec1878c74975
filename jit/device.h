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

/// A loaded binary. Destroyed with its last owner; the device must outlive it.
class Module {
 public:
  virtual ~Module() = default;
  /// Blocks of this launch that fit on one multiprocessor at once; 0 when it cannot run. The host executor says 1.
  virtual int occupancy(const KernelLaunch& launch) const = 0;
};

/// A kernel bound to its geometry, ready to be started without look-ups or allocation. Thread-safe.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  /// Asynchronous on CUDA; synchronous on the host executor. Throws Error(device_failed).
  virtual void enqueue(const void* params, Stream stream) const = 0;
};

/// A tensor map of which only the address is open. Thread-safe.
class PreparedTensorMap {
 public:
  virtual ~PreparedTensorMap() = default;
  /// Writes LaunchPlan::TensorMap::bytes bytes to `map`, a multiple of 64; `array` is a multiple of 16. No allocation, no
  /// lock. Throws Error(device_failed).
  virtual void encode(void* map, void* array) const = 0;
};

/// One GPU, or the host executor. Thread-safe. CUDA: uses the calling thread's current context if that belongs to this
/// device, else the device's primary context.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const noexcept = 0;
  /// What may change under a device class and make a record stale: driver version, clocks, power limit. For records.
  virtual std::map<std::string, std::string> provenance() const = 0;

  /// Device memory; 256-byte aligned. Throws Error(out_of_memory) naming the size.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// Synchronous with respect to the host.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, std::size_t bytes) = 0;
  /// The same, enqueued on `stream`: what a copy roof is timed with. A device that works synchronously need not override it.
  virtual void copy_async(void* to, const void* from, std::size_t bytes, Stream) { copy_on_device(to, from, bytes); }
  virtual void fill(void* device, unsigned char byte, std::size_t bytes) = 0;
  /// The same, enqueued on `stream`.
  virtual void fill_async(void* device, unsigned char byte, std::size_t bytes, Stream) { fill(device, byte, bytes); }

  /// Throws Error(device_failed) for an image this device cannot run.
  virtual std::shared_ptr<Module> load(const Binary& binary) = 0;
  /// Resolves the entry and sets its attributes (shared-memory limit, cluster) once. `module` must outlive the result.
  virtual std::unique_ptr<PreparedKernel> prepare(const Module& module, const KernelLaunch& launch) = 0;

  /// `map` has passed TensorMaps' checks; `array` is the name of its array, for errors. Throws Error(unsupported) on a
  /// device without the copy engine: a GPU before sm_90, and the host executor, which would have to imitate the asynchronous
  /// half of the GPU (barriers that count bytes, wgmma) for a test that says nothing about it.
  virtual std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap& map, const std::string& array) {
    static_cast<void>(map);
    throw Error(ErrorCode::unsupported, "array '", array, "' is moved through a tensor map, which ", info().name,
                " does not have; configurations with tensor maps and wgmma run on sm_90a GPUs only");
  }

  virtual void synchronize(Stream stream) = 0;
  /// Whether the stream is recording a CUDA graph: then nothing may be compiled, tuned, loaded or synchronized.
  virtual bool is_capturing(Stream stream) const = 0;

  /// Runs the works one after the other on an internal stream and returns each one's device time in microseconds, in
  /// order. Before each, the last-level cache is flushed (by writing more than it holds) when flush_l2 is set, which also
  /// hides launch latency. One measurement at a time per device: takes the device's measuring lock, across processes too.
  /// Throws Error(unsupported) on the host executor: it never claims a speed.
  virtual std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) = 0;
};

}  // namespace tunesmith
