#include "api/python/src/errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "tunesmith/error.h"

namespace tunesmith::python {

namespace nb = nanobind;

namespace {

/// Lets the Python side make the exception, which has a class for each code.
void raise(const Error& error) {
  const nb::object made = nb::module_::import_("tunesmith.errors")
                              .attr("make")(name(error.code()), error.what(), error.log(), error.source_path());
  PyErr_SetObject(made.type().ptr(), made.ptr());
}

}  // namespace

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const Error& error) {
    try {
      raise(error);
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace tunesmith::python
