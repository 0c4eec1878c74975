#include "jit/cuda/timer.h"

#include <algorithm>

#include "jit/cuda/context_scope.h"
#include "jit/cuda/measuring_lock.h"

namespace tunesmith {

// Writing twice the size of the last-level cache evicts the arrays. At least 256 MiB, as in Triton's do_bench, so that the
// write takes longer on the device than enqueuing a kernel takes on the host.
constexpr std::size_t min_flush_bytes = std::size_t{256} << 20;
// Where memory is short, a smaller flush evicts a part of the arrays. Below this size, measuring fails.
constexpr std::size_t reduced_flush_bytes = std::size_t{1} << 20;

constexpr int first_arch_with_policies = 80;

CudaTimer::CudaTimer(const CudaDevice& device, cuda::ContextHandle context, std::filesystem::path lock_folder)
    : device_(device), driver_(device.driver()), context_(context), lock_folder_(std::move(lock_folder)) {
  driver_.check(driver_->stream_create(&stream_, cuda::stream_non_blocking), "cuStreamCreate",
                "making the stream for measurements");
}

CudaTimer::~CudaTimer() {
  // If the context no longer exists, nothing is left to free.
  if (driver_->ctx_push(context_) != cuda::success) return;
  {
    const RelaxedCapture relaxed(driver_);
    for (const cuda::EventHandle event : events_) driver_->event_destroy(event);
    if (flush_ != 0) driver_->mem_free(flush_);
    driver_->stream_destroy(stream_);
  }
  cuda::ContextHandle popped = nullptr;
  driver_->ctx_pop(&popped);
}

void CudaTimer::grow(std::size_t works, bool flush_l2) {
  while (events_.size() < 2 * works) {
    cuda::EventHandle event = nullptr;
    driver_.check(driver_->event_create(&event, cuda::event_default), "cuEventCreate", "making events for ", works,
                  " measurements");
    events_.push_back(event);
  }
  if (!flush_l2 || flush_ != 0) return;
  flush_bytes_ = std::max<std::size_t>(2 * static_cast<std::size_t>(device_.info().l2_bytes), min_flush_bytes);
  while (true) {
    const cuda::Result result = driver_->mem_alloc(&flush_, flush_bytes_);
    if (result == cuda::success) return;
    flush_ = 0;
    if (result != cuda::error_out_of_memory || flush_bytes_ / 2 < reduced_flush_bytes)
      driver_.check(result, "cuMemAlloc", "allocating ", flush_bytes_,
                    " bytes to flush the L2 cache of cuda:", device_.info().ordinal);
    flush_bytes_ /= 2;
  }
}

// Lines that evict_last loads keep outlive a flush: 50 flushes later an H100 still read a quarter of 19 MB from L2. The
// reset is not in stream order, so the stream must be idle.
void CudaTimer::release_kept_lines() {
  if (device_.info().arch.number() < first_arch_with_policies) return;
  driver_.check(driver_->ctx_reset_persisting_l2(), "cuCtxResetPersistingL2Cache", "flushing the L2 cache");
}

std::vector<double> CudaTimer::time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) {
  const MeasuringLock lock(lock_folder_, device_.uuid());
  grow(works.size(), flush_l2);
  if (flush_l2) release_kept_lines();
  try {
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (flush_l2)
        driver_.check(driver_->set_words(flush_, 0, flush_bytes_ / 4, stream_), "cuMemsetD32Async", "flushing the L2 cache");
      driver_.check(driver_->event_record(events_[2 * i], stream_), "cuEventRecord", "measuring");
      works[i](stream_);
      driver_.check(driver_->event_record(events_[2 * i + 1], stream_), "cuEventRecord", "measuring");
    }
  } catch (...) {
    driver_->stream_synchronize(stream_);  // work of this measurement must not overlap with the next one
    throw;
  }
  driver_.check(driver_->stream_synchronize(stream_), "cuStreamSynchronize", "measuring ", works.size(), " launches");

  std::vector<double> times_us(works.size());
  for (std::size_t i = 0; i < works.size(); ++i) {
    float ms = 0;
    driver_.check(driver_->event_elapsed_ms(&ms, events_[2 * i], events_[2 * i + 1]), "cuEventElapsedTime", "measuring");
    times_us[i] = double{ms} * 1000;
  }
  return times_us;
}

}  // namespace tunesmith
