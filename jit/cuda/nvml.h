#pragma once
// NVML, the driver's management library: facts that the Driver API does not report. It is opened at run time and may be
// absent.

#include <string>

#include "jit/device.h"

namespace tunesmith {

/// An open NVML. Thread-safe. Opening takes milliseconds.
class Nvml {
 public:
  /// `library` is a path, or a name for the loader. Without the library every fact is unknown.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Returns the driver's version; empty if unknown.
  std::string driver_version() const;
  /// Returns the enforced limit of the GPU with that UUID; 0 if unknown.
  unsigned power_limit_mw(const std::string& uuid) const;
  /// Returns the present conditions on the GPU with that UUID.
  DeviceConditions conditions(const std::string& uuid) const;

 private:
  using Handle = void*;

  template <typename Function>
  Function symbol(const char* name) const;
  /// Returns nullptr if there is none.
  Handle find(const std::string& uuid) const;

  void* library_;
  bool ready_ = false;
};

/// Returns whether a process belongs to this one's work: this process itself, its ancestors and descendants. In a worker
/// process, also descendants of the command that started it, which runs the same program.
bool is_family(int pid);

}  // namespace tunesmith
