#include "jit/executable.h"

#include <array>
#include <cstring>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// Kernel parameters are on the launching thread's stack. The driver's own limit is 4 KiB (32 KiB since CUDA 12.1).
constexpr std::size_t max_param_bytes = 4096;

/// Returns whether two arrays of the same period lie in each other's gaps.
bool lie_in_gaps(const LaunchPlan::Pointer& a, std::uintptr_t at, const LaunchPlan::Pointer& b, std::uintptr_t other) {
  if (a.period_bytes == 0 || a.period_bytes != b.period_bytes) return false;
  const auto period = static_cast<std::uintptr_t>(a.period_bytes);
  const std::uintptr_t from_a = other >= at ? (other - at) % period : (period - (at - other) % period) % period;
  return from_a >= static_cast<std::uintptr_t>(a.block_bytes) &&
         from_a + static_cast<std::uintptr_t>(b.block_bytes) <= period;
}

}  // namespace

Executable::Executable(Device& device, std::shared_ptr<Module> module, LaunchPlan plan, WorkspacePool* pool)
    : device_(device), module_(std::move(module)), plan_(std::move(plan)), tensor_maps_(device, plan_) {
  if (plan_.params.size() > max_param_bytes)
    throw Error(ErrorCode::unsupported, "the kernel's parameters take ", plan_.params.size(), " bytes; allowed: at most ",
                max_param_bytes);
  kernels_.reserve(plan_.kernels.size());
  for (const KernelLaunch& kernel : plan_.kernels) kernels_.push_back(device_.prepare(*module_, kernel));
  if (plan_.workspace_bytes == 0) return;
  const auto bytes = static_cast<std::size_t>(plan_.workspace_bytes);
  workspaces_ = pool != nullptr ? pool->get(plan_.workspace_use, bytes) : std::make_shared<Workspaces>(device_, bytes);
  in_order_ = kernels_.size() > 1 || device_.info().kind == DeviceInfo::Kind::host;
}

Executable::~Executable() = default;

void Executable::check(std::span<void* const> arrays) const {
  if (arrays.size() != plan_.pointers.size())
    throw Error(ErrorCode::invalid_argument, "got ", arrays.size(), " arrays; the operation takes ", plan_.pointers.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const LaunchPlan::Pointer& pointer = plan_.pointers[i];
    const auto address = reinterpret_cast<std::uintptr_t>(arrays[i]);
    if (address == 0) {
      if (pointer.optional || pointer.extent_bytes == 0) continue;
      throw Error(ErrorCode::invalid_argument, "array '", pointer.array, "' is a null pointer; expected ",
                  pointer.extent_bytes, " bytes of device memory");
    }
    if ((address & (pointer.alignment - 1)) != 0)
      throw Error(ErrorCode::invalid_argument, "array '", pointer.array, "' is at ", arrays[i],
                  "; this plan was prepared for addresses that are a multiple of ", pointer.alignment, " bytes");
    if (!pointer.written) continue;
    for (std::size_t j = 0; j < arrays.size(); ++j) {
      const auto other = reinterpret_cast<std::uintptr_t>(arrays[j]);
      const LaunchPlan::Pointer& other_pointer = plan_.pointers[j];
      if (j == i || other == 0 || pointer.extent_bytes == 0 || other_pointer.extent_bytes == 0) continue;
      const bool apart = address + static_cast<std::uintptr_t>(pointer.extent_bytes) <= other ||
                         other + static_cast<std::uintptr_t>(other_pointer.extent_bytes) <= address;
      if (apart || lie_in_gaps(pointer, address, other_pointer, other)) continue;
      if (address != other)
        throw Error(ErrorCode::invalid_argument, "arrays '", pointer.array, "' (", arrays[i], ", ", pointer.extent_bytes,
                    " bytes) and '", other_pointer.array, "' (", arrays[j], ", ", other_pointer.extent_bytes,
                    " bytes) overlap partly; they must be the same array or disjoint");
      if (pointer.in_place_of != static_cast<int>(j) && other_pointer.in_place_of != static_cast<int>(i))
        throw Error(ErrorCode::invalid_argument, "arrays '", pointer.array, "' and '", other_pointer.array,
                    "' are the same array; this plan was not prepared with in_place=1");
    }
  }
}

void Executable::poison_workspace(Stream stream, unsigned char byte) const {
  if (workspaces_ == nullptr || plan_.workspace_use == WorkspaceUse::own) return;
  const std::int64_t kept = plan_.workspace_use == WorkspaceUse::zeros ? LaunchPlan::workspace_zeros : 0;
  if (plan_.workspace_bytes <= kept) return;
  device_.fill(static_cast<std::byte*>(workspaces_->of(stream)) + kept, byte,
               static_cast<std::size_t>(plan_.workspace_bytes - kept));
}

void Executable::enqueue(std::span<void* const> arrays, Stream stream) const {
  check(arrays);
  // Aligned for the tensor maps, which are encoded in place.
  alignas(128) std::array<std::byte, max_param_bytes> params;  // NOLINT: only the first params.size() bytes are used
  std::memcpy(params.data(), plan_.params.data(), plan_.params.size());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    std::memcpy(params.data() + plan_.pointers[i].offset, &arrays[i], sizeof arrays[i]);
  Workspaces::InOrder used{};
  if (workspaces_ != nullptr) {
    if (in_order_)
      used = workspaces_->in_order(stream);
    else
      used.memory = workspaces_->of(stream);
    void* const workspace = used.memory;
    std::memcpy(params.data() + plan_.workspace_offset, &workspace, sizeof workspace);
  }
  tensor_maps_.encode(arrays, params.data());
  for (const auto& kernel : kernels_) kernel->enqueue(params.data(), stream);
}

}  // namespace tunesmith
