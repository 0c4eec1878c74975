#pragma once
// The fast path of a call on tensors: reads them through the DLPack exchange table, finds the plan of an equal call before
// by their layouts, allocates the outputs and launches, without a Python object per shape.

#include <nanobind/nanobind.h>

namespace tunesmith::python {

void bind_launcher(nanobind::module_& module);

}  // namespace tunesmith::python
