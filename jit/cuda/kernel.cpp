#include "jit/cuda/kernel.h"

#include "jit/cuda/context_scope.h"

namespace tunesmith {
namespace {

std::string text(const Dim3& extents) {
  return std::to_string(extents.x) + "x" + std::to_string(extents.y) + "x" + std::to_string(extents.z);
}

}  // namespace

std::string describe(const KernelLaunch& launch) {
  std::string geometry = launch.entry + " with grid " + text(launch.grid) + ", block " + text(launch.block);
  if (launch.cluster.count() != 1) geometry += ", cluster " + text(launch.cluster);
  if (launch.cooperative) geometry += ", cooperative";
  if (launch.overlaps) geometry += ", overlapping";
  return geometry + ", " + std::to_string(launch.dynamic_smem_bytes) + " bytes of dynamic shared memory";
}

std::unique_ptr<PreparedKernel> CudaDevice::prepare(const Module& module, const KernelLaunch& launch) {
  const auto* const cuda_module = dynamic_cast<const CudaModule*>(&module);
  if (cuda_module == nullptr)
    throw Error(ErrorCode::invalid_argument, "module was loaded by another device; load it on cuda:", options_.ordinal);
  const ContextScope scope(*this);
  const RelaxedCapture relaxed(*driver_);
  return std::make_unique<CudaKernel>(*this, *cuda_module, launch, scope.context());
}

LaunchAttributes::LaunchAttributes(const KernelLaunch& launch) {
  if (launch.cluster.count() != 1) {
    cuda::LaunchAttribute& attribute = attributes_[count_++];
    attribute.id = cuda::LaunchAttributeId::cluster_dimension;
    attribute.value.cluster = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
  }
  if (launch.cooperative) {
    cuda::LaunchAttribute& attribute = attributes_[count_++];
    attribute.id = cuda::LaunchAttributeId::cooperative;
    attribute.value.cooperative = 1;
  }
  if (launch.overlaps) {
    cuda::LaunchAttribute& attribute = attributes_[count_++];
    attribute.id = cuda::LaunchAttributeId::programmatic_stream_serialization;
    attribute.value.programmatic_stream_serialization = 1;
  }
}

cuda::LaunchConfig LaunchAttributes::config(const KernelLaunch& launch, cuda::StreamHandle stream) const noexcept {
  return {launch.grid.x,
          launch.grid.y,
          launch.grid.z,
          launch.block.x,
          launch.block.y,
          launch.block.z,
          static_cast<unsigned>(launch.dynamic_smem_bytes),
          stream,
          attributes_.data(),
          count_};
}

CudaKernel::CudaKernel(const CudaDevice& device, const CudaModule& module, const KernelLaunch& launch,
                       cuda::ContextHandle context)
    : device_(device),
      driver_(device.driver()),
      launch_(launch),
      attributes_(launch),
      context_(context),
      kernel_(module.kernel_for(launch)),
      function_(module.function(kernel_, launch)) {
  if (!launch.cooperative) return;
  const std::int64_t resident =
      std::int64_t{module.blocks_per_sm(function_, launch)} * static_cast<std::int64_t>(device.info().sm_count);
  if (launch.grid.count() > static_cast<std::uint64_t>(resident))
    throw Error(ErrorCode::unsupported, "cannot launch ", describe(launch), "; a cooperative grid has at most ", resident,
                " blocks of this kernel on ", device.info().name);
}

void CudaKernel::enqueue(const void* params, Stream stream) const {
  const auto on = static_cast<cuda::StreamHandle>(stream);
  // Without this check, a thread whose current context is on another GPU would launch the kernel there. Reading the current
  // context costs a few nanoseconds.
  cuda::ContextHandle current = nullptr;
  const bool here = driver_->ctx_get_current(&current) == cuda::success && current == context_;
  const cuda::Result result = here ? launch(function_, params, on) : launch_in_other_context(params, on);
  if (result != cuda::success) [[unlikely]]
    fail(result);
}

inline cuda::Result CudaKernel::launch(cuda::FunctionHandle function, const void* params, cuda::StreamHandle stream) const {
  void* arguments[] = {const_cast<void*>(params)};
  if (!attributes_.empty()) {
    const cuda::LaunchConfig config = attributes_.config(launch_, stream);
    return driver_->launch_kernel_ex(&config, function, arguments, nullptr);
  }
  const Dim3 &grid = launch_.grid, &block = launch_.block;
  return driver_->launch_kernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                static_cast<unsigned>(launch_.dynamic_smem_bytes), stream, arguments, nullptr);
}

cuda::Result CudaKernel::launch_in_other_context(const void* params, cuda::StreamHandle stream) const {
  const ContextScope scope(device_);
  // The driver resolves a kernel handle passed as a function handle in the current context.
  return launch(scope.context() == context_ ? function_ : reinterpret_cast<cuda::FunctionHandle>(kernel_), params, stream);
}

void CudaKernel::fail(cuda::Result result) const {
  driver_.fail(result, attributes_.empty() ? "cuLaunchKernel" : "cuLaunchKernelEx", "launching " + describe(launch_));
}

}  // namespace tunesmith
