#include "jit/cuda/device.h"

#include "jit/cuda/context_scope.h"
#include "jit/cuda/nvml.h"
#include "jit/cuda/timer.h"

namespace tunesmith {
namespace {

std::string uuid_text(const cuda::Uuid& uuid, bool mig) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = mig ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid.bytes[i] >> 4];
    text += digits[uuid.bytes[i] & 15];
  }
  return text;
}

}  // namespace

ContextScope::ContextScope(const CudaDevice& device) : driver_(device.driver()) {
  driver_.check(driver_->ctx_get_current(&context_), "cuCtxGetCurrent");
  if (context_ != nullptr) {
    cuda::DeviceHandle of_current = -1;
    if (driver_->ctx_get_device(&of_current) == cuda::success && of_current == device.handle()) return;
  }
  context_ = device.primary_context();
  driver_.check(driver_->ctx_push(context_), "cuCtxPushCurrent");
  pushed_ = true;
}

ContextScope::~ContextScope() {
  cuda::ContextHandle popped = nullptr;
  if (pushed_) driver_->ctx_pop(&popped);
}

CudaDevice::CudaDevice(std::shared_ptr<const Driver> driver, CudaDeviceOptions options)
    : driver_(std::move(driver)), options_(std::move(options)) {
  const int count = driver_->initialize();
  if (options_.ordinal < 0 || options_.ordinal >= count)
    throw Error(ErrorCode::no_device, "device is cuda:", options_.ordinal, "; this machine has ", count,
                count == 1 ? " GPU: cuda:0" : " GPUs: cuda:0 to cuda:" + std::to_string(count - 1));
  driver_->check((*driver_)->device_get(&handle_, options_.ordinal), "cuDeviceGet", "opening cuda:", options_.ordinal);
  read_info();
}

CudaDevice::~CudaDevice() {
  timer_.reset();
  if (primary_ != nullptr) (*driver_)->primary_release(handle_);
}

int CudaDevice::attribute(cuda::DeviceAttribute attribute) const {
  int value = 0;
  driver_->check((*driver_)->device_get_attribute(&value, attribute, handle_), "cuDeviceGetAttribute", "reading attribute ",
                 static_cast<int>(attribute), " of cuda:", options_.ordinal);
  return value;
}

void CudaDevice::read_info() {
  using Attribute = cuda::DeviceAttribute;
  const Driver& driver = *driver_;
  char name[256] = {};
  driver.check(driver->device_get_name(name, sizeof name - 1, handle_), "cuDeviceGetName");
  std::size_t memory_bytes = 0;
  driver.check(driver->device_total_mem(&memory_bytes, handle_), "cuDeviceTotalMem");

  info_.kind = DeviceInfo::Kind::cuda;
  info_.ordinal = options_.ordinal;
  info_.name = name;
  info_.arch = native_arch(attribute(Attribute::compute_capability_major), attribute(Attribute::compute_capability_minor));
  info_.sm_count = attribute(Attribute::multiprocessor_count);
  info_.max_threads_per_block = attribute(Attribute::max_threads_per_block);
  info_.max_threads_per_sm = attribute(Attribute::max_threads_per_multiprocessor);
  info_.registers_per_sm = attribute(Attribute::max_registers_per_multiprocessor);
  info_.smem_bytes_per_block = attribute(Attribute::max_shared_memory_per_block_optin);
  if (info_.smem_bytes_per_block == 0) info_.smem_bytes_per_block = attribute(Attribute::max_shared_memory_per_block);
  info_.smem_bytes_per_sm = attribute(Attribute::max_shared_memory_per_multiprocessor);
  info_.l2_bytes = attribute(Attribute::l2_cache_bytes);
  info_.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  // Two transfers in each clock.
  info_.memory_gb_per_s = 2e-6 * attribute(Attribute::memory_clock_rate_khz) * attribute(Attribute::memory_bus_bits) / 8;
  info_.max_cluster_blocks = attribute(Attribute::cluster_launch) != 0 ? 8 : 1;
  // The driver names a MIG instance after its GPU and profile: "NVIDIA H200 MIG 1g.18gb".
  if (const std::size_t at = info_.name.find(" MIG "); at != std::string::npos) {
    info_.mig = true;
    info_.partition = info_.name.substr(at + 5);
  }
  cuda::Uuid uuid = {};
  driver.check(driver->device_get_uuid(&uuid, handle_), "cuDeviceGetUuid");
  uuid_ = uuid_text(uuid, info_.mig);
}

cuda::ContextHandle CudaDevice::primary_context() const {
  const std::lock_guard lock(mutex_);
  if (primary_ != nullptr) return primary_;
  const RelaxedCapture relaxed(*driver_);
  driver_->check((*driver_)->primary_retain(&primary_, handle_), "cuDevicePrimaryCtxRetain",
                 "making a context on cuda:", options_.ordinal);
  return primary_;
}

void CudaDevice::synchronize(Stream stream) {
  const ContextScope scope(*this);
  const RelaxedCapture relaxed(*driver_);
  driver_->check((*driver_)->stream_synchronize(static_cast<cuda::StreamHandle>(stream)), "cuStreamSynchronize",
                 "waiting for a stream of cuda:", options_.ordinal);
}

bool CudaDevice::is_capturing(Stream stream) const {
  const ContextScope scope(*this);
  cuda::CaptureStatus status = cuda::CaptureStatus::none;
  const cuda::Result result = (*driver_)->stream_is_capturing(static_cast<cuda::StreamHandle>(stream), &status);
  // The legacy default stream returns this while a stream that synchronizes with it is capturing.
  if (result == cuda::error_stream_capture_implicit) return true;
  driver_->check(result, "cuStreamIsCapturing", "asking whether a stream of cuda:", options_.ordinal, " is capturing");
  return status != cuda::CaptureStatus::none;
}

std::vector<double> CudaDevice::time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) {
  if (works.empty()) return {};
  const std::lock_guard lock(timer_mutex_);
  const ContextScope scope(*this);
  const RelaxedCapture relaxed(*driver_);
  if (timer_ == nullptr || timer_->context() != scope.context())
    timer_ = std::make_unique<CudaTimer>(*this, scope.context(), options_.lock_folder);
  return timer_->time_us(works, flush_l2);
}

}  // namespace tunesmith
