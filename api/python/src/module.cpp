// The extension module tunesmith._core.

#include <nanobind/nanobind.h>

#include "api/python/src/engine.h"
#include "api/python/src/errors.h"
#include "api/python/src/launcher.h"
#include "api/python/src/problem.h"
#ifdef TUNESMITH_XLA
#include "api/python/src/xla.h"
#endif
#include "tunesmith/version.h"

NB_MODULE(_core, module) {
  namespace python = tunesmith::python;
  module.attr("version") = TUNESMITH_VERSION;
  nanobind::set_leak_warnings(false);  // engines and plans may live until the process ends
  python::register_errors();
  python::bind_problem(module);
  python::bind_plan(module);
  python::bind_engine(module);
  python::bind_launcher(module);
#ifdef TUNESMITH_XLA
  python::bind_xla(module);
#endif
}
