// The engine of the C API, and device memory for callers without an allocator.

#include <atomic>

#include "api/c/calls.h"
#include "api/c/options.h"
#include "api/engine/parts.h"

using namespace tunesmith;

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Checks both ends of a copy of at least one byte.
void require_memory(const void* device, const void* host, size_t bytes) {
  if (device != nullptr && host != nullptr) return;
  throw Error(ErrorCode::invalid_argument, device == nullptr ? "device" : "host", " is NULL; expected ", bytes, " bytes");
}

}  // namespace

tunesmith_status tunesmith_engine_create(const tunesmith_options* options, tunesmith_engine** engine) {
  return guarded([&] { given(engine, "engine") = new tunesmith_engine{Engine(options_from_c(options)), next_id()}; });
}

void tunesmith_engine_destroy(tunesmith_engine* engine) { delete engine; }

const char* tunesmith_engine_device(const tunesmith_engine* engine) {
  return engine == nullptr ? "" : engine->engine.device().name.c_str();
}

int tunesmith_engine_is_host(const tunesmith_engine* engine) {
  return engine != nullptr && engine->engine.device().kind == DeviceInfo::Kind::host ? 1 : 0;
}

tunesmith_status tunesmith_synchronize(tunesmith_engine* engine, tunesmith_stream stream) {
  return guarded([&] { given(engine, "engine").engine.synchronize(stream); });
}

tunesmith_status tunesmith_engine_tune_pending(tunesmith_engine* engine, double budget_s, size_t* tuned) {
  return guarded([&] {
    const std::size_t count = given(engine, "engine").engine.tune_pending(budget_s);
    if (tuned != nullptr) *tuned = count;
  });
}

tunesmith_status tunesmith_allocate(tunesmith_engine* engine, size_t bytes, void** memory) {
  return guarded([&] {
    void*& result = given(memory, "memory");
    result = given(engine, "engine").engine.parts().device->allocate(bytes);
  });
}

tunesmith_status tunesmith_release(tunesmith_engine* engine, void* memory) {
  return guarded([&] {
    Engine& owner = given(engine, "engine").engine;
    if (memory != nullptr) owner.parts().device->release(memory);
  });
}

tunesmith_status tunesmith_copy_to_device(tunesmith_engine* engine, void* device, const void* host, size_t bytes) {
  return guarded([&] {
    Engine& owner = given(engine, "engine").engine;
    if (bytes == 0) return;
    require_memory(device, host, bytes);
    owner.parts().device->copy_to_device(device, host, bytes);
  });
}

tunesmith_status tunesmith_copy_to_host(tunesmith_engine* engine, void* host, const void* device, size_t bytes) {
  return guarded([&] {
    Engine& owner = given(engine, "engine").engine;
    if (bytes == 0) return;
    require_memory(device, host, bytes);
    owner.parts().device->copy_to_host(host, device, bytes);
  });
}
