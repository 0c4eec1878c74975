#include "api/python/src/xla.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <xla/ffi/api/ffi.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "api/python/src/engine.h"

namespace tunesmith::python {

namespace nb = nanobind;
namespace ffi = xla::ffi;

namespace {

constexpr std::size_t max_arrays = 40;
constexpr std::size_t max_devices = 64;

/// What a call does on one device. tunesmith/jax/calls.py keeps the plan as long as the process.
struct Launch {
  const PythonPlan* plan = nullptr;
  std::vector<int> sources;  ///< for each array of the plan: an operand's number, operands + n for result n, or -1
};

/// Asks tunesmith/jax/calls.py for the launch of a call. Takes the GIL. Throws std::runtime_error with Python's message.
Launch prepare(const std::string& call, int ordinal) {
  const nb::gil_scoped_acquire gil;
  try {
    const nb::object made = nb::module_::import_("tunesmith.jax.calls").attr("prepare")(call, ordinal);
    return {nb::cast<const PythonPlan*>(made[0]), nb::cast<std::vector<int>>(made[1])};
  } catch (nb::python_error& error) {
    throw std::runtime_error(nb::cast<std::string>(nb::str(error.value())));
  }
}

/// The state of a call in a compiled program. The first execution on a device prepares its launch; later ones take no lock.
/// Each platform has a class of its own because each registers its types.
template <bool on_gpu>
class Call {
 public:
  inline static ffi::TypeId id{};

  explicit Call(std::string_view text) : text_(text) {}

  const Launch& on(int ordinal) {
    const auto device = static_cast<std::size_t>(on_gpu ? ordinal : 0);
    if (device >= max_devices) throw std::runtime_error("the number of the GPU is " + std::to_string(ordinal));
    const Launch* known = launches_[device].load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    const std::lock_guard<std::mutex> lock(mutex_);  // no thread that holds the GIL waits for it
    if (launches_[device].load(std::memory_order_relaxed) == nullptr) {
      owned_.push_back(std::make_unique<Launch>(prepare(text_, on_gpu ? ordinal : -1)));
      launches_[device].store(owned_.back().get(), std::memory_order_release);
    }
    return *launches_[device].load(std::memory_order_relaxed);
  }

 private:
  std::string text_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Launch>> owned_;
  std::array<std::atomic<const Launch*>, max_devices> launches_{};
};

ffi::Error failed(const std::exception& error) {
  return ffi::Error(ffi::ErrorCode::kInternal, std::string("tunesmith: ") + error.what());
}

template <bool on_gpu>
ffi::ErrorOr<std::unique_ptr<Call<on_gpu>>> instantiate(std::string_view call) {
  return std::make_unique<Call<on_gpu>>(call);
}

/// Compiles and tunes before the program's first kernel is enqueued.
ffi::Error initialize(Call<true>* call, std::int32_t ordinal) try {
  call->on(ordinal);
  return ffi::Error::Success();
} catch (const std::exception& error) {
  return failed(error);
}

template <bool on_gpu>
ffi::Error execute(Call<on_gpu>* call, std::int32_t ordinal, void* stream, ffi::RemainingArgs operands,
                   ffi::RemainingRets results) try {
  const Launch& launch = call->on(ordinal);
  std::array<void*, max_arrays> addresses{};
  const std::size_t count = launch.sources.size();
  if (count > max_arrays) throw std::runtime_error("the plan has more than 40 arrays");
  for (std::size_t i = 0; i < count; ++i) {
    if (launch.sources[i] < 0) continue;
    const auto source = static_cast<std::size_t>(launch.sources[i]);
    if (source < operands.size())
      addresses[i] = operands.get<ffi::AnyBuffer>(source)->untyped_data();
    else
      addresses[i] = (*results.get<ffi::AnyBuffer>(source - operands.size()))->untyped_data();
  }
  launch.plan->prepared.launch(std::span<void* const>(addresses.data(), count), static_cast<Stream>(stream));
  return ffi::Error::Success();
} catch (const std::exception& error) {
  return failed(error);
}

ffi::Error execute_on_host(Call<false>* call, ffi::RemainingArgs operands, ffi::RemainingRets results) {
  return execute<false>(call, 0, nullptr, operands, results);
}

XLA_FFI_DEFINE_HANDLER(instantiate_on_host, instantiate<false>, ffi::Ffi::BindInstantiate().Attr<std::string_view>("call"));
XLA_FFI_DEFINE_HANDLER(execute_host, execute_on_host,
                       ffi::Ffi::Bind().Ctx<ffi::State<Call<false>>>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER(instantiate_on_gpu, instantiate<true>, ffi::Ffi::BindInstantiate().Attr<std::string_view>("call"));
XLA_FFI_DEFINE_HANDLER(initialize_on_gpu, initialize,
                       ffi::Ffi::BindInitialize().Ctx<ffi::State<Call<true>>>().Ctx<ffi::DeviceOrdinal>());
XLA_FFI_DEFINE_HANDLER(execute_on_gpu, execute<true>,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<Call<true>>>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Ctx<ffi::PlatformStream<void*>>()
                           .RemainingArgs()
                           .RemainingRets());

nb::capsule capsule_of(const void* address) { return nb::capsule(address); }

template <typename... Parameters>
nb::capsule capsule_of(XLA_FFI_Error* (*handler)(Parameters...)) {
  return capsule_of(reinterpret_cast<const void*>(handler));
}

template <bool on_gpu>
nb::dict type_of_call() {
  static constexpr ffi::TypeInfo info = ffi::MakeTypeInfo<Call<on_gpu>>();
  nb::dict result;
  result["type_id"] = capsule_of(&Call<on_gpu>::id);
  result["type_info"] = capsule_of(&info);
  return result;
}

nb::dict handlers() {
  nb::dict host, gpu, result;
  host["instantiate"] = capsule_of(instantiate_on_host);
  host["execute"] = capsule_of(execute_host);
  gpu["instantiate"] = capsule_of(instantiate_on_gpu);
  gpu["initialize"] = capsule_of(initialize_on_gpu);
  gpu["execute"] = capsule_of(execute_on_gpu);
  result["cpu"] = nb::make_tuple(type_of_call<false>(), host);
  result["CUDA"] = nb::make_tuple(type_of_call<true>(), gpu);
  return result;
}

}  // namespace

void bind_xla(nb::module_& module) {
  module.def("xla_handlers", &handlers,
             nb::sig("def xla_handlers() -> dict[str, tuple[dict[str, typing.Any], dict[str, typing.Any]]]"),
             "Returns the type of a call's state and the handlers of its stages, for each platform of XLA.");
}

}  // namespace tunesmith::python
