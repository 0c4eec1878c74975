#include "api/python/src/progress.h"

#include <nanobind/stl/string.h>

#include <memory>

#include "tunesmith/error.h"

namespace tunesmith::python {

namespace nb = nanobind;

namespace {

/// Drops a reference on any thread.
void drop(nb::object* object) {
  if (Py_IsInitialized() == 0) {
    object->release();  // the interpreter has dropped it
    delete object;
    return;
  }
  const nb::gil_scoped_acquire gil;
  delete object;
}

}  // namespace

std::function<void(const TuningProgress&)> progress_to_python(nb::object observer) {
  const std::shared_ptr<nb::object> shared(new nb::object(std::move(observer)), drop);
  return [shared](const TuningProgress& at) {
    if (Py_IsInitialized() == 0) return;
    const std::string problem = at.problem.short_text();
    const nb::gil_scoped_acquire gil;
    try {
      if (!shared->is_none())
        (*shared)(problem, at.done, at.total, at.finished ? nb::object(nb::none()) : nb::object(nb::str(at.what.c_str())));
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    } catch (nb::python_error& error) {
      nb::module_::import_("tunesmith.errors").attr("keep")(error.value());
      throw Error(ErrorCode::cancelled, "tuning ", problem, " was stopped by an exception from its callback for progress");
    }
  };
}

}  // namespace tunesmith::python
