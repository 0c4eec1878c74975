// Device memory. Copies and fills are synchronous unless their name says async. No call invalidates another thread's stream
// capture.

#include <algorithm>

#include "jit/cuda/context_scope.h"
#include "jit/cuda/device.h"

namespace tunesmith {
namespace {

cuda::Address address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

cuda::Result set(const Driver& driver, cuda::Address memory, unsigned char byte, std::size_t bytes,
                 cuda::StreamHandle stream) {
  if (memory % 4 == 0 && bytes % 4 == 0) return driver->set_words(memory, byte * 0x01010101u, bytes / 4, stream);
  return driver->set_bytes(memory, byte, bytes, stream);
}

}  // namespace

void* CudaDevice::allocate(std::size_t bytes) {
  const ContextScope scope(*this);
  const RelaxedCapture relaxed(*driver_);
  cuda::Address memory = 0;
  driver_->check((*driver_)->mem_alloc(&memory, std::max<std::size_t>(bytes, 1)), "cuMemAlloc", "allocating ", bytes,
                 " bytes on cuda:", options_.ordinal, " (", info_.name, ", ", info_.memory_bytes, " bytes of memory)");
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
}

void CudaDevice::release(void* memory) noexcept try {
  if (memory == nullptr) return;
  const ContextScope scope(*this);
  const RelaxedCapture relaxed(*driver_);
  (*driver_)->mem_free(address(memory));
} catch (...) {
  // The context no longer exists, so the memory does not either.
}

// Copies on the legacy default stream, so that the copy comes after work enqueued there earlier. The synchronization also
// waits until a pageable copy has arrived, which cuMemcpyHtoD does not guarantee. While a blocking stream is capturing,
// using the default stream would invalidate the capture, so the copy runs on a stream of its own.
template <typename Copy>
void CudaDevice::copy(const char* call, std::size_t bytes, const Copy& enqueue) {
  if (bytes == 0) return;
  const Driver& driver = *driver_;
  const ContextScope scope(*this);
  const RelaxedCapture relaxed(driver);
  cuda::CaptureStatus status = cuda::CaptureStatus::none;
  cuda::StreamHandle stream = nullptr;
  const bool blocked = driver->stream_is_capturing(nullptr, &status) == cuda::error_stream_capture_implicit;
  if (blocked) driver.check(driver->stream_create(&stream, cuda::stream_non_blocking), "cuStreamCreate");
  cuda::Result result = enqueue(stream);
  if (result == cuda::success) result = driver->stream_synchronize(stream);
  if (blocked) driver->stream_destroy(stream);
  driver.check(result, call, "copying ", bytes, " bytes on cuda:", options_.ordinal);
}

void CudaDevice::copy_to_device(void* device, const void* host, std::size_t bytes) {
  copy("cuMemcpyHtoDAsync", bytes,
       [&](cuda::StreamHandle stream) { return (*driver_)->copy_to_device(address(device), host, bytes, stream); });
}

void CudaDevice::copy_to_host(void* host, const void* device, std::size_t bytes) {
  copy("cuMemcpyDtoHAsync", bytes,
       [&](cuda::StreamHandle stream) { return (*driver_)->copy_to_host(host, address(device), bytes, stream); });
}

void CudaDevice::copy_on_device(void* to, const void* from, std::size_t bytes) {
  copy("cuMemcpyDtoDAsync", bytes,
       [&](cuda::StreamHandle stream) { return (*driver_)->copy_on_device(address(to), address(from), bytes, stream); });
}

void CudaDevice::copy_async(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const ContextScope scope(*this);
  driver_->check((*driver_)->copy_on_device(address(to), address(from), bytes, static_cast<cuda::StreamHandle>(stream)),
                 "cuMemcpyDtoDAsync", "copying ", bytes, " bytes on cuda:", options_.ordinal);
}

void CudaDevice::fill(void* device, unsigned char byte, std::size_t bytes) {
  copy("cuMemsetAsync", bytes,
       [&](cuda::StreamHandle stream) { return set(*driver_, address(device), byte, bytes, stream); });
}

void CudaDevice::fill_async(void* device, unsigned char byte, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const ContextScope scope(*this);
  driver_->check(set(*driver_, address(device), byte, bytes, static_cast<cuda::StreamHandle>(stream)), "cuMemsetAsync",
                 "filling ", bytes, " bytes on cuda:", options_.ordinal);
}

}  // namespace tunesmith
