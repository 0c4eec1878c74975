// Eager calls from PyTorch's tensors to launches, in C++. Compiled on the user's machine against their PyTorch
// (__init__.py), because PyTorch's C++ interface differs between versions. src/launcher.cpp does the same with any version,
// without gradients: where it calls Python for a guard, for an attribute of a tensor or for memory, this calls PyTorch's
// functions.

#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launch_table.h"
#include "launch_target.h"

namespace tunesmith::python {

namespace {

using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A reference to a Python object that is given back under the GIL, from any thread.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* stolen) : object_(stolen) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ == nullptr || !Py_IsInitialized()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object_);
    PyGILState_Release(state);
  }
  static Owned borrow(PyObject* object) {
    Py_XINCREF(object);
    return Owned(object);
  }
  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

/// Takes a new reference that a function of Python returned; throws the exception if there is none.
Owned checked(PyObject* result) {
  if (result == nullptr) throw python_error();
  return Owned(result);
}

Owned attribute(PyObject* object, const char* name) { return checked(PyObject_GetAttrString(object, name)); }

std::vector<std::int64_t> integers(PyObject* sequence) {
  const Owned list = checked(PySequence_Tuple(sequence));
  std::vector<std::int64_t> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i)
    values.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(list.get(), i)));
  if (PyErr_Occurred() != nullptr) throw python_error();
  return values;
}

/// What a call with known layouts does: the members of launching.py's Prepared.
struct Prepared {
  struct Output {
    std::vector<std::int64_t> shape, strides;
    at::ScalarType dtype;
  };

  explicit Prepared(PyObject* made) : plan(attribute(made, "plan")) {
    const Owned capsule = attribute(plan.get(), "launch_target");
    const void* held = PyCapsule_GetPointer(capsule.get(), LaunchTarget::capsule_name);
    if (held == nullptr) throw python_error();
    target = *static_cast<const LaunchTarget*>(held);
    sources = integers(attribute(made, "sources").get());
    results = static_cast<std::size_t>(PyLong_AsSize_t(attribute(made, "results").get()));
    const Owned list = checked(PySequence_Tuple(attribute(made, "outputs").get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
      PyObject* output = PyTuple_GET_ITEM(list.get(), i);
      const Owned dtype = attribute(output, "dtype");
      outputs.push_back({integers(attribute(output, "shape").get()), integers(attribute(output, "strides").get()),
                         reinterpret_cast<THPDtype*>(dtype.get())->scalar_type});
    }
  }

  Owned plan;
  LaunchTarget target{};
  std::vector<std::int64_t>
      sources;  ///< for each array of the plan: an argument's number, arguments + n for output n, or -1
  std::vector<Output> outputs;
  std::size_t results = 0;  ///< outputs that are results; the others are scratch memory
};

/// How a launcher records its calls for autograd.
struct Gradient {
  std::size_t inputs = 0;           ///< the first arguments have gradients
  std::size_t outputs = 0;          ///< the first outputs do
  std::vector<std::int64_t> saved;  ///< what `function` gets: numbers of arguments, or arguments + n for output n
  Owned function;                   ///< (saved..., gradients of outputs...) -> the gradient or gradients of the inputs
};

struct Launcher : std::enable_shared_from_this<Launcher> {
  static constexpr std::size_t max_arguments = 24, max_arrays = 40, max_outputs = 16;  // as in src/launcher.cpp

  std::string name;
  Owned prepare;
  bool in_autocast = true;             ///< calls under autocast are taken
  bool writes_last = false;            ///< the last argument is written
  std::size_t returned = max_outputs;  ///< results that the call returns
  std::optional<Gradient> gradient;
  LaunchTable table;
  std::vector<std::shared_ptr<const Prepared>> prepared;

  std::shared_ptr<const Prepared> find(PyObject* const* arguments, std::size_t count, const LayoutKey& key);
  void record(std::span<const at::Tensor* const> arguments, std::span<at::Tensor> outputs) const;
  PyObject* call(PyObject* const* arguments, std::size_t count);
};

/// The node of a recorded call in autograd's graph. It calls the gradient's Python function.
struct LaunchBackward final : Node {
  LaunchBackward(std::shared_ptr<const Launcher> recorded, edge_list&& edges)
      : Node(std::move(edges)), launcher(std::move(recorded)) {}

  variable_list apply(variable_list&& gradients) override;
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& variable : saved) variable.reset_data();
  }
  std::string name() const override { return "TunesmithBackward[" + launcher->name + "]"; }

  std::shared_ptr<const Launcher> launcher;
  std::vector<SavedVariable> saved;
};

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  Gil() = default;
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;
  ~Gil() { PyGILState_Release(state); }
};

variable_list LaunchBackward::apply(variable_list&& gradients) {
  if (std::none_of(gradients.begin(), gradients.end(), [](const at::Tensor& gradient) { return gradient.defined(); }))
    return variable_list(num_outputs());
  variable_list values;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const SavedVariable& variable : saved) values.push_back(variable.unpack(getptr()));
  }
  for (at::Tensor& gradient : gradients) values.push_back(std::move(gradient));
  const Gil gil;
  try {
    const Owned arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    for (std::size_t i = 0; i < values.size(); ++i)
      PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(std::move(values[i])));
    Owned found = checked(PyObject_CallObject(launcher->gradient->function.get(), arguments.get()));
    if (!PyTuple_Check(found.get())) found = checked(PyTuple_Pack(1, found.get()));
    variable_list results;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found.get()); ++i) {
      PyObject* one = PyTuple_GET_ITEM(found.get(), i);
      results.push_back(one == Py_None ? at::Tensor() : THPVariable_Unpack(one));
    }
    return results;
  } catch (python_error& error) {
    error.persist();  // autograd raises it in the thread that called backward()
    throw;
  }
}

/// Reports whether a mode, a transform or autocast sees the operations of this thread.
bool is_intercepted(const c10::impl::LocalDispatchKeySet& keys, bool in_autocast) {
  if (!(keys.included_ - c10::default_included_set).empty()) return true;
  if (!in_autocast && !keys.excluded_.has_all(c10::default_excluded_set)) return true;
  return at::impl::torch_function_mode_enabled();
}

/// Reports whether the tensor is dense, on a CPU or a CUDA device, and its memory holds its values.
bool is_plain(const at::Tensor& tensor) {
  static const c10::DispatchKeySet ignored =
      c10::default_excluded_set | c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
  const c10::DispatchKeySet keys = tensor.key_set() - ignored;
  return keys == c10::DispatchKeySet(c10::DispatchKey::CUDA) || keys == c10::DispatchKeySet(c10::DispatchKey::CPU);
}

/// Reports whether forward-mode autograd has a tangent of the tensor.
bool has_tangent(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr && tensor._fw_grad(0).defined();
}

at::Tensor allocate(const Prepared::Output& output, c10::Device device) {
  if (device.is_cpu()) return at::detail::empty_strided_cpu(output.shape, output.strides, output.dtype);
  static c10::Allocator* const allocator = at::detail::getCUDAHooks().getCUDADeviceAllocator();
  static const bool several = at::detail::getCUDAHooks().deviceCount() > 1;
  c10::OptionalDeviceGuard guard;
  if (several) guard.reset_device(device);
  return at::detail::empty_strided_generic(output.shape, output.strides, allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), output.dtype);
}

/// The function of the DLPack exchange table that returns PyTorch's current stream.
int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** stream) = nullptr;

PyObject* not_implemented() {
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

/// Returns nullptr if the arguments have a layout that no kernel takes.
std::shared_ptr<const Prepared> Launcher::find(PyObject* const* arguments, std::size_t count, const LayoutKey& key) {
  const std::uint64_t hash = key.hash();
  if (const std::optional<std::size_t> known = table.find(key, hash)) return prepared[*known];
  const Owned made = checked(PyObject_Vectorcall(prepare.get(), arguments, count, nullptr));
  std::shared_ptr<const Prepared> found;
  if (made.get() != Py_None) found = std::make_shared<Prepared>(made.get());
  if (found != nullptr && (found->sources.size() > max_arrays || found->outputs.size() > max_outputs)) found = nullptr;
  if (table.is_full()) {
    table.clear();
    prepared.clear();
  }
  prepared.push_back(found);
  table.add(key, hash, prepared.size() - 1);
  return found;
}

using NodePointer = decltype(std::declval<Node&>().getptr());

/// Returns the first owner of a node: a shared_ptr up to PyTorch 2.11 or later, then an intrusive_ptr.
template <typename Pointer>
Pointer owner_of(auto* node) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>)
    return Pointer(node, [](auto* last) { deleteNode(last); });  // PyTorch's, which does not recurse into the graph
  else
    return c10::intrusive_ptr<std::remove_pointer_t<decltype(node)>>::unsafe_steal_from_new(node);
}

/// Connects the outputs to the arguments in autograd's graph.
void Launcher::record(std::span<const at::Tensor* const> arguments, std::span<at::Tensor> outputs) const {
  edge_list edges;
  for (std::size_t i = 0; i < gradient->inputs; ++i)
    edges.push_back(arguments[i] == nullptr ? torch::autograd::Edge() : torch::autograd::impl::gradient_edge(*arguments[i]));
  auto* const node = new LaunchBackward(shared_from_this(), std::move(edges));
  const NodePointer owner = owner_of<NodePointer>(node);
  for (std::size_t n = 0; n < gradient->outputs; ++n) torch::autograd::set_history(outputs[n], owner);
  for (const std::int64_t number : gradient->saved) {
    const auto at = static_cast<std::size_t>(number);
    if (at >= arguments.size())
      node->saved.emplace_back(outputs[at - arguments.size()], at - arguments.size() < gradient->outputs);
    else if (arguments[at] != nullptr)
      node->saved.emplace_back(*arguments[at], false);
    else
      node->saved.emplace_back();
  }
}

PyObject* Launcher::call(PyObject* const* arguments, std::size_t count) {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  if (count == 0 || count > max_arguments || is_intercepted(keys, in_autocast)) return not_implemented();
  std::array<const at::Tensor*, max_arguments> tensors{};
  std::array<void*, max_arguments> addresses{};
  LayoutKey key;
  bool recorded = false;
  // Kernels that the dispatcher calls run below autograd.
  const bool records = c10::GradMode::is_enabled() && !keys.excluded_.has_any(c10::autograd_dispatch_keyset);
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments[i] == Py_None && i > 0) {
      key.add_absent();
      continue;
    }
    if (!THPVariable_CheckExact(arguments[i])) return not_implemented();
    const at::Tensor& tensor = THPVariable_Unpack(arguments[i]);
    if (!is_plain(tensor) || (i > 0 && tensor.device() != tensors[0]->device())) return not_implemented();
    if (records && tensor.requires_grad()) {
      if (!gradient.has_value() || i >= gradient->inputs) return not_implemented();
      recorded = true;
    }
    if (has_tangent(tensor)) return not_implemented();
    tensors[i] = &tensor;
    addresses[i] = writes_last && i + 1 == count ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    const c10::Device device = tensor.device();
    if (!key.add(static_cast<std::uint16_t>(tensor.scalar_type()),
                 static_cast<std::uint32_t>(static_cast<int>(device.type()) << 16 | (device.index() & 0xffff)), addresses[i],
                 i > 0 && addresses[i] == addresses[0], tensor.sizes(), tensor.strides()))
      return not_implemented();
  }
  const std::shared_ptr<const Prepared> found = find(arguments, count, key);
  if (found == nullptr) return not_implemented();

  const c10::Device device = tensors[0]->device();
  std::array<at::Tensor, max_outputs> outputs;
  for (std::size_t n = 0; n < found->outputs.size(); ++n) outputs[n] = allocate(found->outputs[n], device);
  std::array<void*, max_arrays> pointers{};
  for (std::size_t i = 0; i < found->sources.size(); ++i) {
    const auto at = static_cast<std::size_t>(found->sources[i]);
    if (found->sources[i] >= 0) pointers[i] = at < count ? addresses[at] : outputs[at - count].mutable_data_ptr();
  }
  void* stream = nullptr;
  if (device.is_cuda() && current_stream(/*cuda*/ 2, device.index(), &stream) != 0) throw python_error();
  if (found->target.launch(found->target.plan, pointers.data(), found->sources.size(), stream) != 0) throw python_error();
  if (writes_last) tensors[count - 1]->unsafeGetTensorImpl()->bump_version();

  if (recorded) record({tensors.data(), count}, {outputs.data(), found->outputs.size()});
  const std::size_t wanted = std::min(found->results, returned);
  if (wanted == 0) Py_RETURN_NONE;
  if (wanted == 1) return THPVariable_Wrap(std::move(outputs[0]));
  Owned tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(wanted)));
  for (std::size_t n = 0; n < wanted; ++n)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(n), THPVariable_Wrap(std::move(outputs[n])));
  return tuple.release();
}

PyObject* call_launcher(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  auto* launcher = static_cast<std::shared_ptr<Launcher>*>(PyCapsule_GetPointer(self, nullptr));
  return (*launcher)->call(arguments, static_cast<std::size_t>(count));
  END_HANDLE_TH_ERRORS
}

PyMethodDef launcher_definition{"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_launcher)),
                                METH_FASTCALL, "Launches the plan for these tensors; returns the outputs."};

void delete_launcher(PyObject* capsule) {
  delete static_cast<std::shared_ptr<Launcher>*>(PyCapsule_GetPointer(capsule, nullptr));
}

/// launcher(name, prepare, in_autocast, writes_last, returned, gradient): gradient is None or (inputs, outputs, saved,
/// function).
PyObject* make_launcher(PyObject*, PyObject* arguments) {
  HANDLE_TH_ERRORS
  const char* name = nullptr;
  PyObject *prepare = nullptr, *gradient = nullptr;
  int in_autocast = 0, writes_last = 0;
  Py_ssize_t returned = 0;
  if (PyArg_ParseTuple(arguments, "sOppnO", &name, &prepare, &in_autocast, &writes_last, &returned, &gradient) == 0)
    return nullptr;
  auto launcher = std::make_shared<Launcher>();
  launcher->name = name;
  launcher->prepare = Owned::borrow(prepare);
  launcher->in_autocast = in_autocast != 0;
  launcher->writes_last = writes_last != 0;
  launcher->returned = static_cast<std::size_t>(returned);
  if (gradient != Py_None) {
    Py_ssize_t inputs = 0, outputs = 0;
    PyObject *saved = nullptr, *function = nullptr;
    if (PyArg_ParseTuple(gradient, "nnOO", &inputs, &outputs, &saved, &function) == 0) return nullptr;
    launcher->gradient = Gradient{static_cast<std::size_t>(inputs), static_cast<std::size_t>(outputs), integers(saved),
                                  Owned::borrow(function)};
  }
  const Owned self = checked(PyCapsule_New(new std::shared_ptr<Launcher>(std::move(launcher)), nullptr, delete_launcher));
  return PyCFunction_NewEx(&launcher_definition, self.get(), nullptr);
  END_HANDLE_TH_ERRORS
}

std::array<PyMethodDef, 2> functions{
    {{"launcher", make_launcher, METH_VARARGS, "Returns a function of tensors that launches what `prepare` returned."}, {}}};
PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "tunesmith_native", nullptr, -1, functions.data(), nullptr, nullptr, nullptr, nullptr};

/// The start of DLPack's exchange table (src/dlpack.h).
struct Exchange {
  std::uint32_t major, minor;
  void* others[5];
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};

}  // namespace

}  // namespace tunesmith::python

PyMODINIT_FUNC PyInit_tunesmith_native() {
  using namespace tunesmith::python;
  PyObject* capsule = PyObject_GetAttrString(THPVariableClass, "__dlpack_c_exchange_api__");
  if (capsule == nullptr) return nullptr;
  const auto* exchange = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  Py_DECREF(capsule);  // the table lives as long as PyTorch
  if (exchange == nullptr) return nullptr;
  current_stream = exchange->current_stream;
  return PyModule_Create(&definition);
}
