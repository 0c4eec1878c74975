// Opens devices, compilers and matrix libraries; the only file that names their implementations.

#include <charconv>

#include "api/engine/parts.h"
#include "jit/cuda/cublas_lt.h"
#include "jit/cuda/device.h"
#include "jit/cuda/nvrtc_compiler.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "jit/host/matmul.h"

namespace tunesmith {
namespace {

std::shared_ptr<Device> open_cuda(int ordinal) {
  CudaDeviceOptions options;
  options.ordinal = ordinal;
  return std::make_shared<CudaDevice>(Driver::open(), options);
}

}  // namespace

std::shared_ptr<Device> open_device(const std::string& text,
                                    const std::function<void(EngineOptions::Level, const std::string&)>& log) {
  if (text == "host") return std::make_shared<HostDevice>();
  if (text == "cuda") return open_cuda(0);
  if (text == "auto") try {
      return open_cuda(0);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device) throw;
      if (log) log(EngineOptions::Level::info, std::string("no GPU (") + error.what() + "); running on the host executor");
      return std::make_shared<HostDevice>();
    }
  if (text.starts_with("cuda:")) {
    const char* const begin = text.data() + 5;
    const char* const end = text.data() + text.size();
    int ordinal = -1;
    const auto [rest, failure] = std::from_chars(begin, end, ordinal);
    if (failure == std::errc() && rest == end && ordinal >= 0) return open_cuda(ordinal);
  }
  throw Error(ErrorCode::invalid_argument, "device is '", text, "'; expected auto, cuda, cuda:N (N from 0) or host");
}

std::shared_ptr<Compiler> open_compiler(DeviceInfo::Kind kind, const EngineOptions& options) {
  if (kind == DeviceInfo::Kind::host) {
    HostCompilerOptions host;
    host.dump_folder = options.dump_folder;
    return std::make_shared<HostCompiler>(std::move(host));
  }
  NvrtcOptions nvrtc;
  nvrtc.folders = cuda_folders(options);
  nvrtc.dump_folder = options.dump_folder;
  nvrtc.append_flags = options.cuda_environment.nvrtc_append_flags;
  return std::make_shared<NvrtcCompiler>(std::move(nvrtc));
}

CudaFolders cuda_folders(const EngineOptions& options) {
  CudaFolders folders;
  folders.given = options.cuda_folders;
  folders.toolkits = options.cuda_environment.toolkits;
  folders.loader = options.cuda_environment.library_folders;
  folders.wheels = options.cuda_environment.python_folders;
  return folders;
}

std::shared_ptr<MatmulLibrary> open_matmul(const std::shared_ptr<Device>& device, const EngineOptions& options) {
  if (device->info().kind == DeviceInfo::Kind::host) return std::make_shared<HostMatmul>();
  const auto cuda = std::dynamic_pointer_cast<const CudaDevice>(device);
  if (cuda == nullptr)
    throw Error(ErrorCode::unsupported, "matrix products need a CUDA device or the host executor; this is ",
                device->info().name);
  const int newest_major = cuda->driver().api_version() / 1000;
  return std::make_shared<CublasLt>(
      cuda, std::make_shared<const CublasLtLibrary>(find_cublas_lt(cuda_folders(options), newest_major), newest_major));
}

}  // namespace tunesmith
