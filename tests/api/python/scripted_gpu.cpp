// The extension module _scripted_gpu of the tests: engines on a scripted GPU, which tunes without hardware.

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "api/python/src/engine.h"
#include "api/python/src/errors.h"
#include "api/python/src/progress.h"
#include "tests/api/engine/fakes.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_scripted_gpu, module) {
  using tunesmith::fakes::FakeEngine;
  tunesmith::python::register_errors();
  nb::class_<FakeEngine>(module, "FakeEngine")
      .def_prop_ro(
          "engine", [](FakeEngine& self) -> tunesmith::Engine& { return *self.engine; }, nb::rv_policy::reference_internal);
  module.def(
      "make",
      [](nb::object observer, const std::string& mode) {
        tunesmith::EngineOptions options = tunesmith::fakes::in_mode(tunesmith::parse_mode(mode));
        options.progress = tunesmith::python::progress_to_python(std::move(observer));
        return new FakeEngine(options);
      },
      "observer"_a, "mode"_a);
}
