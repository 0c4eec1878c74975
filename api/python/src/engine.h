#pragma once
// Engines and plans.

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "api/c/operations.h"

namespace tunesmith::python {

/// A prepared problem and what a launch needs to know.
struct PythonPlan {
  Prepared prepared;
  std::vector<ArrayInfo> arrays;
  DeviceInfo device;

  bool on_host() const noexcept { return device.kind == DeviceInfo::Kind::host; }
};

void bind_engine(nanobind::module_& module);
void bind_plan(nanobind::module_& module);

}  // namespace tunesmith::python
