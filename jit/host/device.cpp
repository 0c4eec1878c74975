#include "jit/host/device.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "jit/host/grid.h"
#include "jit/host/kernel_library.h"
#include "jit/host/sanitizer_fiber.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::size_t min_stack_bytes = 32 << 10;
constexpr std::size_t max_stack_bytes = 64 << 20;
constexpr std::size_t default_stack_bytes = host::with_asan ? 256 << 10 : 64 << 10;
constexpr std::size_t allocation_alignment = 256;

unsigned stack_shift(std::size_t requested) {
  const std::size_t bytes = requested == 0 ? default_stack_bytes : requested;
  if (bytes < min_stack_bytes || bytes > max_stack_bytes)
    throw Error(ErrorCode::invalid_argument, "stack_bytes is ", bytes, "; allowed: ", min_stack_bytes, " to ",
                max_stack_bytes);
  return static_cast<unsigned>(std::countr_zero(std::bit_ceil(bytes)));
}

DeviceInfo host_info() {
  DeviceInfo info = generic_device(Arch{9, 0, 'a'});
  info.kind = DeviceInfo::Kind::host;
  info.name = "host executor";
  info.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return info;
}

unsigned cpu_count() { return std::max(1u, std::thread::hardware_concurrency()); }

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

class HostKernel final : public PreparedKernel {
 public:
  HostKernel(host::GroupPool& pool, const host::abi::Entry& entry, host::LaunchShape shape)
      : pool_(pool), entry_(entry), shape_(std::move(shape)) {}

  void enqueue(const void* params, Stream) const override {
    // Copy the block to memory of its exact size and alignment, so that AddressSanitizer sees an overrun.
    const auto alignment = std::align_val_t{std::max<std::size_t>(16, entry_.params_alignment)};
    const auto release = [alignment](void* memory) { ::operator delete(memory, alignment); };
    const std::unique_ptr<void, decltype(release)> copy(::operator new(entry_.params_bytes, alignment), release);
    if (entry_.params_bytes > 0) std::memcpy(copy.get(), params, entry_.params_bytes);
    host::run_grid(pool_, shape_, entry_, copy.get());
  }

 private:
  host::GroupPool& pool_;
  const host::abi::Entry entry_;
  const host::LaunchShape shape_;
};

}  // namespace

struct HostDevice::State {
  explicit State(HostDeviceOptions wanted)
      : options(std::move(wanted)),
        info(host_info()),
        pool(stack_shift(options.stack_bytes), options.workers == 0 ? cpu_count() : options.workers) {}

  HostDeviceOptions options;
  DeviceInfo info;
  host::GroupPool pool;
};

HostDevice::HostDevice(HostDeviceOptions options) : state_(std::make_unique<State>(std::move(options))) {}
HostDevice::~HostDevice() = default;

const DeviceInfo& HostDevice::info() const noexcept { return state_->info; }

std::map<std::string, std::string> HostDevice::provenance() const {
  std::map<std::string, std::string> facts = {{"cpu", cpu_name()},
                                              {"cpu_count", std::to_string(cpu_count())},
                                              {"workers", std::to_string(state_->pool.workers())},
                                              {"executor_compiler", __VERSION__}};
  if (!state_->options.compiler.empty()) facts["compiler"] = state_->options.compiler;
  return facts;
}

void* HostDevice::allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, allocation_alignment, std::max<std::size_t>(bytes, 1)) != 0)
    throw Error(ErrorCode::out_of_memory, "cannot allocate ", bytes, " bytes of memory for the host executor");
  return memory;
}

void HostDevice::release(void* memory) noexcept { std::free(memory); }

void HostDevice::copy_to_device(void* device, const void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}
void HostDevice::copy_to_host(void* host, const void* device, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}
void HostDevice::copy_on_device(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}
void HostDevice::fill(void* device, unsigned char byte, std::size_t bytes) {
  if (bytes > 0) std::memset(device, byte, bytes);
}

std::shared_ptr<Module> HostDevice::load(const Binary& binary) { return load_all(binary).at(0); }

std::vector<std::shared_ptr<Module>> HostDevice::load_all(const Binary& binary) {
  const auto library = std::make_shared<const host::KernelLibrary>(binary.image, state_->pool.stack_shift());
  std::vector<std::shared_ptr<Module>> modules;
  for (std::size_t i = 0; i < library->table().count; ++i)
    modules.push_back(std::make_shared<host::HostModule>(library, i, state_->info));
  return modules;
}

std::unique_ptr<PreparedKernel> HostDevice::prepare(const Module& module, const KernelLaunch& launch) {
  const auto* const host_module = dynamic_cast<const host::HostModule*>(&module);
  if (host_module == nullptr)
    throw Error(ErrorCode::invalid_argument, "module was loaded by another device; load it on the host executor");
  const host::abi::Entry& entry = host_module->find(launch.entry);
  const std::string why = host::why_not_launchable(launch, state_->info);
  if (!why.empty()) throw Error(ErrorCode::invalid_argument, "kernel '", launch.entry, "' cannot be launched with ", why);

  host::LaunchShape shape;
  shape.entry = launch.entry;
  shape.grid = launch.grid;
  shape.block = launch.block;
  shape.cluster = launch.cluster;
  shape.dynamic_smem_bytes = static_cast<std::size_t>(launch.dynamic_smem_bytes);
  shape.max_smem_bytes = static_cast<std::size_t>(state_->info.smem_bytes_per_block);
  shape.cooperative = launch.cooperative;
  return std::make_unique<HostKernel>(state_->pool, entry, std::move(shape));
}

void HostDevice::synchronize(Stream) {}
bool HostDevice::is_capturing(Stream) const { return false; }

std::vector<double> HostDevice::time_us(std::span<const std::function<void(Stream)>>, bool) {
  throw Error(ErrorCode::unsupported, "the host executor cannot measure: its times say nothing about a GPU");
}

}  // namespace tunesmith
