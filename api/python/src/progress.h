#pragma once
// The progress of tuning, for Python.

#include <nanobind/nanobind.h>

#include <functional>

#include "tunesmith/engine.h"

namespace tunesmith::python {

/// Returns the callback of an engine. `observer` is called as observer(problem, done, total, what or None) and returns false
/// to cancel; None lets Ctrl-C cancel and reports nothing. An exception waits in tunesmith.errors for the Error(cancelled)
/// of the engine's function to arrive there, because C++ must not rethrow one in several threads.
std::function<void(const TuningProgress&)> progress_to_python(nanobind::object observer);

}  // namespace tunesmith::python
