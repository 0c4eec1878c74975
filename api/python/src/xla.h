#pragma once
// Handlers of XLA's foreign function interface, which tunesmith.jax registers.

#include <nanobind/nanobind.h>

namespace tunesmith::python {

void bind_xla(nanobind::module_& module);

}  // namespace tunesmith::python
