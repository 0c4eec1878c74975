#include "api/python/src/launcher.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "api/python/src/array.h"
#include "api/python/src/engine.h"
#include "api/python/src/errors.h"
#include "api/python/tunesmith/torch/native/launch_table.h"
#include "tunesmith/error.h"

namespace tunesmith::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// The steps of a call with known layouts.
struct Launch {
  static constexpr int absent = -1;

  nb::object plan_owner;
  const PythonPlan* plan;
  /// For each array of the plan: an argument's number; arguments + n for output n; or `absent`.
  std::vector<int> sources;
  std::vector<std::pair<nb::object, nb::tuple>> allocations;  ///< of each output: a function and its arguments
  std::size_t results;  ///< outputs that the call returns; the others are scratch memory
};

struct Launcher {
  // attention_backward has 9 tensors and 8 of score_mod and mask_mod, and gives 5 gradients and those 8.
  static constexpr std::size_t max_arguments = 24;
  static constexpr std::size_t max_arrays = 40;
  static constexpr std::size_t max_outputs = 16;

  std::string name;
  std::vector<nb::object> types;  ///< whose instances are read; instances of subclasses are not
  const DlExchange* exchange;
  nb::object prepare;
  std::vector<nb::object>
      guards;          ///< functions without arguments; if one returns something true, another path takes the call
  nb::object records;  ///< such a function: whether autograd records operations on tensors that require grad
  nb::object is_negative, requires_grad;  ///< names of a method and of an attribute of tensors
  LaunchTable table;
  std::vector<nb::object> launches;  ///< instances of Launch

  bool reads(PyObject* object) const noexcept {
    for (const nb::object& type : types)
      if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.ptr()) return true;
    return false;
  }

  bool is_guarded() const;
  bool is_plain(PyObject* tensor, bool recorded) const;
  nb::object find(PyObject* const* arguments, std::size_t count, const LayoutKey& key);
  nb::object call(PyObject* const* arguments, std::size_t count);
};

void* address_of(const DlTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

bool add_to(LayoutKey& key, const DlTensor& tensor, const void* address, bool same_as_first) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  std::span<const std::int64_t> strides;
  if (tensor.strides != nullptr) strides = {tensor.strides, rank};
  return key.add(static_cast<std::uint16_t>(tensor.type.code << 8 | tensor.type.bits),
                 static_cast<std::uint32_t>(tensor.device.type << 16 | tensor.device.id), address, same_as_first,
                 {tensor.shape, rank}, strides);
}

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

/// Takes what a call returned; returns whether it is true.
bool is_true(PyObject* result) {
  const nb::object owner = nb::steal(result);
  const int truth = result == nullptr ? -1 : result == Py_None ? 0 : PyObject_IsTrue(result);
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

/// Reports whether a mode or a transform is active that sees operations.
bool Launcher::is_guarded() const {
  for (const nb::object& guard : guards)
    if (is_true(PyObject_CallObject(guard.ptr(), nullptr))) return true;
  return false;
}

/// Reports whether a tensor's memory holds its values, and nothing records the call.
bool Launcher::is_plain(PyObject* tensor, bool recorded) const {
  if (recorded && is_true(PyObject_GetAttr(tensor, requires_grad.ptr()))) return false;
  return !is_true(PyObject_CallMethodObjArgs(tensor, is_negative.ptr(), nullptr));
}

/// Returns an instance of Launch, or None if the arguments have a layout that no kernel takes.
nb::object Launcher::find(PyObject* const* arguments, std::size_t count, const LayoutKey& key) {
  const std::uint64_t hash = key.hash();
  if (const std::optional<std::size_t> known = table.find(key, hash)) return launches[*known];
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(nb::handle(arguments[i]));
  nb::object made = prepare(*nb::tuple(list));
  if (table.is_full()) {
    table.clear();
    launches.clear();
  }
  launches.push_back(made);
  table.add(key, hash, launches.size() - 1);
  return made;
}

nb::object Launcher::call(PyObject* const* arguments, std::size_t count) {
  if (count > max_arguments)
    throw Error(ErrorCode::invalid_argument, name, " got ", count, " arguments; allowed: at most ", max_arguments);
  if (is_guarded()) return not_implemented();
  const bool recorded = !records.is_none() && is_true(PyObject_CallObject(records.ptr(), nullptr));
  std::array<void*, max_arguments> addresses{};
  LayoutKey key;
  DlDevice device{dl_cpu, 0};
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments[i] == Py_None) {
      key.add_absent();
      continue;
    }
    if (!reads(arguments[i]) || !is_plain(arguments[i], recorded)) return not_implemented();
    DlTensor tensor;
    if (exchange->tensor_from_object(arguments[i], &tensor) != 0) {
      PyErr_Clear();  // a tensor without memory of its own, such as one under a transform
      return not_implemented();
    }
    addresses[i] = address_of(tensor);
    if (i == 0) device = tensor.device;
    if (tensor.device.type != device.type || tensor.device.id != device.id)
      throw Error(ErrorCode::invalid_argument, name, " got tensors on different devices; argument ", i,
                  " is not on the device of the first one");
    if (!add_to(key, tensor, addresses[i], i > 0 && addresses[i] == addresses[0])) return not_implemented();
  }

  const nb::object found = find(arguments, count, key);
  if (found.is_none()) return not_implemented();
  const Launch& launch = *nb::inst_ptr<Launch>(found);

  std::array<void*, max_arrays> pointers{};
  std::array<nb::object, max_outputs> outputs;
  std::array<void*, max_outputs> output_addresses{};
  for (std::size_t n = 0; n < launch.allocations.size(); ++n) {
    const auto& [function, parameters] = launch.allocations[n];
    outputs[n] = nb::steal(PyObject_CallObject(function.ptr(), parameters.ptr()));
    DlTensor tensor;
    if (!outputs[n].is_valid() || exchange->tensor_from_object(outputs[n].ptr(), &tensor) != 0) throw nb::python_error();
    output_addresses[n] = address_of(tensor);
  }
  for (std::size_t i = 0; i < launch.sources.size(); ++i) {
    const int source = launch.sources[i];
    if (source == Launch::absent) continue;
    const auto at = static_cast<std::size_t>(source);
    pointers[i] = at < count ? addresses[at] : output_addresses[at - count];
  }

  const std::span<void* const> all(pointers.data(), launch.sources.size());
  if (launch.plan->on_host()) {
    const nb::gil_scoped_release released;
    launch.plan->prepared.launch(all, nullptr);
  } else {
    void* stream = nullptr;
    if (exchange->current_stream(dl_cuda, device.id, &stream) != 0) throw nb::python_error();
    launch.plan->prepared.launch(all, stream);
  }

  if (launch.results == 0) return nb::none();
  if (launch.results == 1) return std::move(outputs[0]);
  nb::list list;
  for (std::size_t n = 0; n < launch.results; ++n) list.append(outputs[n]);
  return nb::tuple(list);
}

PyObject* call_launcher(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept try {
  auto* launcher = static_cast<Launcher*>(PyCapsule_GetPointer(self, nullptr));
  return launcher->call(arguments, static_cast<std::size_t>(count)).release().ptr();
} catch (...) {
  set_python_error();
  return nullptr;
}

PyMethodDef launcher_definition{"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_launcher)),
                                METH_FASTCALL, "Launches the plan for these tensors; returns the outputs."};

nb::object make_launcher(const std::string& name, const std::vector<nb::object>& types, const nb::object& prepare,
                         const std::vector<nb::object>& guards, const nb::object& records) {
  const DlExchange* exchange = types.empty() ? nullptr : exchange_of(types.front());
  if (exchange == nullptr || exchange->tensor_from_object == nullptr)
    throw Error(ErrorCode::unsupported, "the tensor type has no __dlpack_c_exchange_api__; PyTorch has it from 2.10 on");
  auto launcher = std::make_unique<Launcher>(
      Launcher{name, types, exchange, prepare, guards, records, nb::str("is_neg"), nb::str("requires_grad"), {}, {}});
  const nb::object self = nb::steal(PyCapsule_New(launcher.get(), nullptr, [](PyObject* capsule) {
    delete static_cast<Launcher*>(PyCapsule_GetPointer(capsule, nullptr));
  }));
  if (!self.is_valid()) throw nb::python_error();
  launcher.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it
  nb::object function = nb::steal(PyCFunction_NewEx(&launcher_definition, self.ptr(), nullptr));
  if (!function.is_valid()) throw nb::python_error();
  return function;
}

void init_launch(Launch* self, const nb::object& plan, const std::vector<std::optional<int>>& sources,
                 const std::vector<std::pair<nb::object, nb::tuple>>& allocations, std::size_t results) {
  const auto& known = nb::cast<const PythonPlan&>(plan);
  if (sources.size() != known.arrays.size() || sources.size() > Launcher::max_arrays || results > allocations.size() ||
      allocations.size() > Launcher::max_outputs)
    throw Error(ErrorCode::invalid_argument, "sources are ", sources.size(), "; the plan takes ", known.arrays.size());
  std::vector<int> numbers;
  for (const std::optional<int>& source : sources) numbers.push_back(source.value_or(Launch::absent));
  new (self) Launch{plan, &known, std::move(numbers), allocations, results};
}

}  // namespace

void bind_launcher(nb::module_& module) {
  nb::class_<Launch>(module, "Launch", "What a launcher does with tensors of one layout.")
      .def("__init__", &init_launch, "plan"_a, "sources"_a, "allocations"_a, "results"_a,
           nb::sig("def __init__(self, plan: Plan, sources: Sequence[int | None], allocations: "
                   "Sequence[tuple[collections.abc.Callable[..., object], tuple[object, ...]]], results: int) -> None"));
  module.def(
      "launcher", &make_launcher, "name"_a, "types"_a, "prepare"_a, "guards"_a, "records"_a.none(),
      nb::sig("def launcher(name: str, types: Sequence[type], prepare: collections.abc.Callable[..., Launch | None], "
              "guards: Sequence[collections.abc.Callable[[], object]], "
              "records: collections.abc.Callable[[], object] | None) -> collections.abc.Callable[..., object]"),
      "Returns a function of tensors that launches the plan which `prepare` returned for the same layouts. It returns "
      "NotImplemented for objects of other types than `types`, negative views, and where `prepare` returned None; if "
      "one of `guards` returns something true; and if `records` does and a tensor requires grad.");
}

}  // namespace tunesmith::python
