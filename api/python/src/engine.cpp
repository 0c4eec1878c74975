#include "api/python/src/engine.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "api/python/src/problem.h"
#include "api/python/src/progress.h"
#include "tunesmith/error.h"

namespace tunesmith::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

namespace fs = std::filesystem;

/// Hands a line to tunesmith/log.py. May run on any thread, with or without the GIL.
void log_to_python(EngineOptions::Level level, const std::string& line) {
  if (Py_IsInitialized() == 0) return;
  const nb::gil_scoped_acquire gil;
  try {
    nb::module_::import_("tunesmith.log").attr("emit")(level == EngineOptions::Level::warning, line);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("tunesmith.log.emit");
  }
}

template <typename Member, typename Given>
void set_if(Member& member, const std::optional<Given>& given) {
  if (given) member = *given;
}

std::unique_ptr<Engine> make_engine(const std::string& device, const std::optional<std::string>& mode,
                                    const std::optional<std::string>& effort, const std::optional<fs::path>& cache_file,
                                    const std::optional<std::vector<fs::path>>& system_caches,
                                    std::optional<double> tune_budget_s, std::optional<double> tune_share,
                                    std::optional<double> tune_allowance_s, std::optional<std::size_t> plan_capacity,
                                    const std::optional<std::string>& specialize, std::optional<std::uint32_t> exact_after,
                                    std::optional<std::uint32_t> compile_ahead_jobs,
                                    const std::vector<fs::path>& cuda_folders, const std::vector<fs::path>& python_folders,
                                    const std::optional<fs::path>& templates_folder,
                                    const std::optional<fs::path>& dump_folder, const std::optional<std::string>& remote,
                                    nb::object observer) {
  EngineOptions options = EngineOptions::from_environment();
  options.device = device;
  if (mode) options.mode = parse_mode(*mode);
  if (effort) options.effort = parse_effort(*effort);
  set_if(options.cache_file, cache_file);
  if (system_caches) {
    options.system_caches = *system_caches;
    if (system_caches->empty()) options.shipped_cache.clear();
  }
  set_if(options.tune_budget_s, tune_budget_s);
  set_if(options.tune_share, tune_share);
  set_if(options.tune_allowance_s, tune_allowance_s);
  set_if(options.plan_capacity, plan_capacity);
  if (specialize) options.specialize = parse_specialize(*specialize);
  set_if(options.exact_after, exact_after);
  set_if(options.compile_ahead_jobs, compile_ahead_jobs);
  set_if(options.templates_folder, templates_folder);
  set_if(options.dump_folder, dump_folder);
  set_if(options.remote, remote);
  options.cuda_folders.insert(options.cuda_folders.begin(), cuda_folders.begin(), cuda_folders.end());
  auto& wheels = options.cuda_environment.python_folders;
  wheels.insert(wheels.end(), python_folders.begin(), python_folders.end());
  options.log = log_to_python;
  options.progress = progress_to_python(std::move(observer));
  const nb::gil_scoped_release released;
  return std::make_unique<Engine>(std::move(options));
}

std::unique_ptr<PythonPlan> prepare(Engine& engine, const CheckedFields& problem, const nb::object& config,
                                    const std::optional<std::string>& mode, std::uintptr_t stream) {
  PrepareOptions options;
  options.config = config_from(config);
  if (mode) options.mode = parse_mode(*mode);
  const nb::gil_scoped_release released;  // compiles and tunes
  Prepared prepared = Prepared::make(engine, problem.problem, options,
                                     reinterpret_cast<Stream>(stream));  // NOLINT(performance-no-int-to-ptr)
  std::vector<ArrayInfo> arrays = prepared.arrays();
  return std::make_unique<PythonPlan>(std::move(prepared), std::move(arrays), engine.device());
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<TuningStatus>(module, "TuningStatus", "What an engine has tuned on first use.")
      .def_ro("tuned_keys", &TuningStatus::tuned_keys)
      .def_ro("tune_s", &TuningStatus::tune_s, "Wall seconds.")
      .def_ro("failed_keys", &TuningStatus::failed_keys)
      .def_ro("pending_keys", &TuningStatus::pending_keys, "Keys that wait because of tune_share.")
      .def_ro("untuned_plans", &TuningStatus::untuned_plans)
      .def("__repr__", [](const TuningStatus& status) {
        return nb::str("<tunesmith.TuningStatus tuned_keys={} tune_s={} failed_keys={} pending_keys={} untuned_plans={}>")
            .format(status.tuned_keys, status.tune_s, status.failed_keys, status.pending_keys, status.untuned_plans);
      });

  nb::class_<Engine>(module, "Engine", "Owns a device, a compiler and a cache. Threads may share it.")
      .def(nb::new_(&make_engine), "device"_a, "mode"_a.none(), "effort"_a.none(), "cache_file"_a.none(),
           "system_caches"_a.none(), "tune_budget_s"_a.none(), "tune_share"_a.none(), "tune_allowance_s"_a.none(),
           "plan_capacity"_a.none(), "specialize"_a.none(), "exact_after"_a.none(), "compile_ahead_jobs"_a.none(),
           "cuda_folders"_a, "python_folders"_a, "templates_folder"_a.none(), "dump_folder"_a.none(), "remote"_a.none(),
           "observer"_a.none())
      .def("prepare", &prepare, "problem"_a, "config"_a.none(), "mode"_a.none(), "stream"_a, nb::keep_alive<0, 1>())
      .def(
          "synchronize",
          [](Engine& self, std::uintptr_t stream) {
            const nb::gil_scoped_release released;
            self.synchronize(reinterpret_cast<Stream>(stream));  // NOLINT(performance-no-int-to-ptr)
          },
          "stream"_a = 0, "Waits for the work on a stream; 0 is the default stream.")
      .def("tuning", &Engine::tuning, "Returns the counters of tuning on first use.")
      .def(
          "tune_pending",
          [](Engine& self, double budget_s) {
            const nb::gil_scoped_release released;
            return self.tune_pending(budget_s);
          },
          "budget_s"_a, "Tunes keys that wait because of tune_share; returns their number.")
      .def_prop_ro("device_name", [](const Engine& self) { return self.device().name; })
      .def_prop_ro(
          "is_host", [](const Engine& self) { return self.device().kind == DeviceInfo::Kind::host; },
          "The host executor stands in for a GPU: results are right, speed means nothing.")
      .def_prop_ro(
          "ordinal", [](const Engine& self) { return self.device().ordinal; }, "Of the GPU.")
      .def_prop_ro("mode", [](const Engine& self) { return std::string(name(self.options().mode)); })
      .def_prop_ro("cache_file", [](const Engine& self) { return self.options().cache_file; });
}

}  // namespace tunesmith::python
