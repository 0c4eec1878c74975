#pragma once
// Errors as the exceptions of tunesmith/errors.py.

#include <exception>

namespace tunesmith::python {

/// Registers the translation of tunesmith::Error for functions that nanobind calls.
void register_errors();

/// Sets the Python exception of the C++ exception that is being handled, for functions that Python calls directly.
void set_python_error() noexcept;

}  // namespace tunesmith::python
