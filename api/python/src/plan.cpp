// Plans: what was chosen for a problem, and its launch on arrays of any library.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <deque>
#include <memory>

#include "api/python/src/array.h"
#include "api/python/src/engine.h"
#include "api/python/src/errors.h"
#include "api/python/tunesmith/torch/native/launch_target.h"
#include "tunesmith/error.h"

namespace tunesmith::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void enqueue(const PythonPlan& plan, std::span<void* const> addresses, Stream stream) {
  if (!plan.on_host()) return plan.prepared.launch(addresses, stream);
  const nb::gil_scoped_release released;  // the kernel runs now, on this thread
  plan.prepared.launch(addresses, stream);
}

/// None, an integer, or an object of another library that names its stream: torch, CuPy, or the CUDA stream protocol.
Stream stream_of(nb::handle stream) {
  if (stream.is_none()) return nullptr;
  nb::object address = nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__"))
    address = nb::cast<nb::tuple>(stream.attr("__cuda_stream__")())[1];
  else
    for (const char* member : {"cuda_stream", "ptr"})
      if (nb::hasattr(stream, member)) {
        address = stream.attr(member);
        break;
      }
  return reinterpret_cast<Stream>(nb::cast<std::uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr)
}

/// Reads the addresses of arrays that fit the plan; `borrowed` keeps the arrays alive.
std::vector<void*> addresses_of(const PythonPlan& plan, const nb::args& arrays, std::deque<BorrowedArray>& borrowed) {
  if (arrays.size() != plan.arrays.size())
    throw Error(ErrorCode::invalid_argument, "got ", arrays.size(), " arrays; the plan takes ", plan.arrays.size());
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ArrayInfo& info = plan.arrays[i];
    if (arrays[i].is_none()) {
      addresses.push_back(nullptr);
      continue;
    }
    const ArrayView& view = borrowed.emplace_back(arrays[i], info.name).view();
    check_view(view, info, plan.device);
    addresses.push_back(view.data);
  }
  return addresses;
}

/// LaunchTarget::launch.
int launch_from_native(const void* plan, void* const* arrays, std::size_t count, void* stream) noexcept try {
  enqueue(*static_cast<const PythonPlan*>(plan), {arrays, count}, static_cast<Stream>(stream));
  return 0;
} catch (...) {
  set_python_error();
  return -1;
}

nb::capsule launch_target(const PythonPlan& plan) {
  const auto release = [](void* target) noexcept { delete static_cast<LaunchTarget*>(target); };
  auto target = std::make_unique<LaunchTarget>(LaunchTarget{&plan, &launch_from_native});
  return nb::capsule(target.release(), LaunchTarget::capsule_name, release);
}

void launch(const PythonPlan& plan, const nb::args& arrays, const nb::object& stream) {
  std::deque<BorrowedArray> borrowed;  // until the launch is enqueued
  enqueue(plan, addresses_of(plan, arrays, borrowed), stream_of(stream));
}

double host_time_us(const PythonPlan& plan, const nb::args& arrays, const nb::object& stream, int repeats) {
  std::deque<BorrowedArray> borrowed;
  const std::vector<void*> addresses = addresses_of(plan, arrays, borrowed);
  Stream const on = stream_of(stream);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) plan.prepared.launch(addresses, on);
  const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - start;
  return passed.count() / std::max(repeats, 1);
}

std::string repr(const PythonPlan& plan) {
  return "<tunesmith.Plan " + plan.prepared.text() + " config=" + plan.prepared.kernels().config().text() + ">";
}

nb::dict layout(const nb::object& array, const std::string& name) {
  const BorrowedArray borrowed(array, name);
  const ArrayView& view = borrowed.view();
  const auto rank = static_cast<std::size_t>(view.rank);
  const auto tuple = [&](const auto& values) {
    return nb::tuple(nb::cast(std::vector<std::int64_t>(values.begin(), values.begin() + rank)));
  };
  nb::dict result;
  result["dtype"] = type_name(view.type);
  result["type"] = describe_type(view.type);
  result["shape"] = tuple(view.shape);
  result["strides"] = tuple(view.strides);
  result["address"] = reinterpret_cast<std::uintptr_t>(view.data);
  result["device"] = nb::make_tuple(view.device.type, view.device.id);
  result["read_only"] = view.read_only;
  return result;
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<PythonPlan>(module, "Plan", "A prepared problem: compiled, loaded and bound. Threads may share it.")
      .def("launch", &launch, "arrays"_a, "stream"_a = nb::none(),
           nb::sig("def launch(self, *arrays: object, stream: object | int | None = None) -> None"),
           "Enqueues the kernels on `stream` and returns. `arrays`: in the order of `arrays`, each an object that offers "
           "DLPack, the buffer protocol or __cuda_array_interface__, or None for an optional one. The host executor "
           "returns when the work is done.")
      .def("host_time_us", &host_time_us, "arrays"_a, "stream"_a = nb::none(), "repeats"_a = 100,
           nb::sig(
               "def host_time_us(self, *arrays: object, stream: object | int | None = None, repeats: int = 100) -> float"),
           "Measures the host time of one launch, without Python: the mean of `repeats` launches, one after the other.")
      .def_prop_ro(
          "arrays", [](const PythonPlan& plan) { return plan.arrays; }, "In launch order.")
      .def_prop_ro(
          "problem", [](const PythonPlan& plan) { return plan.prepared.text(); }, "The normal form.")
      .def_prop_ro("config", [](const PythonPlan& plan) { return plan.prepared.kernels().config().text(); })
      .def_prop_ro(
          "origin", [](const PythonPlan& plan) { return std::string(name(plan.prepared.kernels().origin())); },
          "\"pinned\", \"tuned\", \"exact\", \"older\", \"nearest\" or \"default\".")
      .def_prop_ro(
          "source", [](const PythonPlan& plan) { return plan.prepared.kernels().source(); },
          "The CUDA source, exactly as compiled.")
      .def_prop_ro(
          "compiled", [](const PythonPlan& plan) { return plan.prepared.kernels().compiled(); },
          "Whether this process ran the compiler for it.")
      .def_prop_ro("compile_ms", [](const PythonPlan& plan) { return plan.prepared.kernels().compile_ms(); })
      .def_prop_ro("tune_s", [](const PythonPlan& plan) { return plan.prepared.kernels().tune_s(); })
      .def_prop_ro("resources", [](const PythonPlan& plan) { return plan.prepared.kernels().resources(); })
      .def_prop_ro("occupancy", [](const PythonPlan& plan) { return plan.prepared.kernels().occupancy(); })
      .def_prop_ro(
          "bytes", [](const PythonPlan& plan) { return plan.prepared.kernels().bytes(); },
          "Least memory traffic of one launch.")
      .def_prop_ro("flops", [](const PythonPlan& plan) { return plan.prepared.kernels().flops(); })
      .def_prop_ro(
          "deterministic", [](const PythonPlan& plan) { return plan.prepared.kernels().deterministic(); },
          "Whether equal inputs give equal bits in every run; if not, they may differ by rounding.")
      .def_prop_ro("workspace_bytes", [](const PythonPlan& plan) { return plan.prepared.workspace_bytes(); })
      .def_prop_ro("launch_target", &launch_target, "For tunesmith.torch.native; valid while the plan lives.")
      .def("__repr__", &repr);

  module.def("layout", &layout, "array"_a, "name"_a = "array",
             nb::sig("def layout(array: object, name: str = 'array') -> dict[str, typing.Any]"),
             "Returns the element type, shape, strides (elements), address and DLPack device of an array.");
}

}  // namespace tunesmith::python
