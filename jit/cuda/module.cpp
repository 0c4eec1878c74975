#include "jit/cuda/module.h"

#include <algorithm>
#include <limits>

#include "jit/cuda/context_scope.h"
#include "jit/cuda/cubin.h"
#include "jit/cuda/kernel.h"

namespace tunesmith {
namespace {

using cuda::FunctionAttribute;

int checked_smem_bytes(const KernelLaunch& launch) {
  if (launch.dynamic_smem_bytes < 0 || launch.dynamic_smem_bytes > std::numeric_limits<int>::max())
    throw Error(ErrorCode::invalid_argument, "dynamic_smem_bytes of ", launch.entry, " is ", launch.dynamic_smem_bytes,
                "; expected 0 or more, within the device's limit");
  return static_cast<int>(launch.dynamic_smem_bytes);
}

}  // namespace

CudaModule::CudaModule(const CudaDevice& device, const Binary& binary) : device_(device) {
  check_cubin(binary.image);
  const Driver& driver = device.driver();
  const RelaxedCapture relaxed(driver);
  const cuda::Result result =
      driver->library_load_data(&library_, binary.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == cuda::success) return;
  const int version = driver.api_version();
  driver.check(result, "cuLibraryLoadData", "loading a cubin of ", binary.image.size(),
               " bytes on cuda:", device.info().ordinal, " (", device.info().name, ", ", name(device.info().arch),
               ", driver for CUDA ", version / 1000, ".", version % 1000 / 10, ")");
}

CudaModule::~CudaModule() {
  const Driver& driver = device_.driver();
  const RelaxedCapture relaxed(driver);
  driver->library_unload(library_);
}

CudaModule::Kernel& CudaModule::find(const std::string& entry) const {
  const auto known = kernels_.find(entry);
  if (known != kernels_.end()) return known->second;
  const Driver& driver = device_.driver();
  Kernel kernel;
  const cuda::Result result = driver->library_get_kernel(&kernel.handle, library_, entry.c_str());
  if (result == cuda::error_not_found)
    throw Error(ErrorCode::not_found, "the binary has no kernel '", entry, "'; entries are extern \"C\" __global__");
  driver.check(result, "cuLibraryGetKernel", "looking for kernel ", entry);
  const auto read = [&](FunctionAttribute attribute) {
    int value = 0;
    driver.check(driver->kernel_get_attribute(&value, attribute, kernel.handle, device_.handle()), "cuKernelGetAttribute",
                 "loading kernel ", entry, " on cuda:", device_.info().ordinal);
    return value;
  };
  kernel.max_threads = read(FunctionAttribute::max_threads_per_block);
  kernel.static_smem_bytes = read(FunctionAttribute::shared_bytes);
  kernel.max_dynamic_smem_bytes = read(FunctionAttribute::max_dynamic_shared_bytes);
  return kernels_.emplace(entry, kernel).first->second;
}

cuda::KernelHandle CudaModule::kernel_for(const KernelLaunch& launch) const {
  const Driver& driver = device_.driver();
  const DeviceInfo& info = device_.info();
  const auto dynamic_bytes = checked_smem_bytes(launch);
  if (launch.grid.count() == 0 || launch.block.count() == 0 || launch.cluster.count() == 0)
    throw Error(ErrorCode::invalid_argument, "cannot launch ", describe(launch), "; every extent must be at least 1");

  const std::lock_guard lock(mutex_);
  Kernel& kernel = find(launch.entry);
  if (launch.block.count() > static_cast<std::uint64_t>(kernel.max_threads))
    throw Error(ErrorCode::unsupported, "cannot launch ", describe(launch), "; the kernel allows blocks of at most ",
                kernel.max_threads, " threads on ", info.name);
  if (std::int64_t{dynamic_bytes} + kernel.static_smem_bytes > info.smem_bytes_per_block)
    throw Error(ErrorCode::unsupported, "cannot launch ", describe(launch), " and ", kernel.static_smem_bytes,
                " of static; a block has at most ", info.smem_bytes_per_block, " bytes on ", info.name);
  if (launch.cluster.count() != 1 && info.max_cluster_blocks == 1)
    throw Error(ErrorCode::unsupported, "cannot launch ", describe(launch), "; ", info.name, " has no clusters");

  const auto set = [&](FunctionAttribute attribute, int value) {
    driver.check(driver->kernel_set_attribute(attribute, value, kernel.handle, device_.handle()), "cuKernelSetAttribute",
                 "preparing ", describe(launch));
  };
  if (dynamic_bytes > kernel.max_dynamic_smem_bytes) {
    set(FunctionAttribute::max_dynamic_shared_bytes, dynamic_bytes);
    kernel.max_dynamic_smem_bytes = dynamic_bytes;
  }
  if (launch.cluster.count() > static_cast<std::uint64_t>(info.max_cluster_blocks) && !kernel.non_portable_clusters) {
    set(FunctionAttribute::non_portable_cluster_size_allowed, 1);
    kernel.non_portable_clusters = true;
  }
  return kernel.handle;
}

cuda::FunctionHandle CudaModule::function(cuda::KernelHandle kernel, const KernelLaunch& launch) const {
  const Driver& driver = device_.driver();
  cuda::FunctionHandle function = nullptr;
  driver.check(driver->kernel_get_function(&function, kernel), "cuKernelGetFunction", "loading ", launch.entry);
  // The driver loads lazily: querying an attribute forces the code onto the device.
  int registers = 0;
  driver.check(driver->func_get_attribute(&registers, FunctionAttribute::num_regs, function), "cuFuncGetAttribute",
               "loading ", launch.entry);
  return function;
}

int CudaModule::blocks_per_sm(cuda::FunctionHandle function, const KernelLaunch& launch) const {
  const Driver& driver = device_.driver();
  int blocks = 0;
  driver.check(driver->max_active_blocks(&blocks, function, static_cast<int>(launch.block.count()),
                                         static_cast<std::size_t>(launch.dynamic_smem_bytes)),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor", "querying the occupancy of ", describe(launch));
  if (launch.cluster.count() == 1 || blocks == 0) return blocks;

  // A cluster occupies a single GPC, so clusters can leave multiprocessors idle. Use the number of clusters per device.
  KernelLaunch plain = launch;
  plain.cooperative = false;
  const LaunchAttributes attributes(plain);
  const cuda::LaunchConfig config = attributes.config(plain, nullptr);
  int clusters = 0;
  const cuda::Result result = driver->max_active_clusters(&clusters, function, &config);
  if (result == cuda::error_invalid_cluster_size) return 0;
  driver.check(result, "cuOccupancyMaxActiveClusters", "querying the occupancy of ", describe(launch));
  if (clusters == 0) return 0;
  const auto resident = static_cast<std::int64_t>(launch.cluster.count()) * clusters / device_.info().sm_count;
  return static_cast<int>(std::clamp<std::int64_t>(resident, 1, blocks));
}

int CudaModule::occupancy(const KernelLaunch& launch) const {
  const ContextScope scope(device_);
  const RelaxedCapture relaxed(device_.driver());
  try {
    const cuda::KernelHandle kernel = kernel_for(launch);
    return blocks_per_sm(function(kernel, launch), launch);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return 0;
    throw;
  }
}

std::shared_ptr<Module> CudaDevice::load(const Binary& binary) { return std::make_shared<CudaModule>(*this, binary); }

}  // namespace tunesmith
