#pragma once
// A GPU and a compiler that do nothing: an engine on them has host time only, which can be measured on any machine.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/engine/parts.h"

namespace tunesmith::bench {

/// Returns the source as the binary.
class IdleCompiler : public Compiler {
 public:
  std::string identity() const override { return "idle"; }
  std::string options(const Arch& arch) const override { return "-arch=" + name(arch); }
  std::vector<Arch> supported_archs() const override { return {{9, 0, 'a'}}; }
  Binary compile(const CompileRequest& request) const override {
    Binary binary;
    binary.image = request.source;
    binary.compile_ms = 1e-3;
    return binary;
  }
  std::string assembly(const CompileRequest&) const override { return {}; }
};

/// Launches return at once. Memory is the host's and is never touched.
class IdleDevice : public Device {
 public:
  const DeviceInfo& info() const noexcept override { return info_; }
  std::map<std::string, std::string> provenance() const override { return {}; }
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void release(void* memory) noexcept override { std::free(memory); }
  void copy_to_device(void*, const void*, std::size_t) override {}
  void copy_to_host(void*, const void*, std::size_t) override {}
  void copy_on_device(void*, const void*, std::size_t) override {}
  void fill(void*, unsigned char, std::size_t) override {}
  std::shared_ptr<Module> load(const Binary&) override { return std::make_shared<IdleModule>(); }
  std::unique_ptr<PreparedKernel> prepare(const Module&, const KernelLaunch&) override {
    return std::make_unique<IdleKernel>();
  }
  std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap&, const std::string&) override {
    return std::make_unique<IdleTensorMap>();
  }
  void synchronize(Stream) override {}
  bool is_capturing(Stream) const override { return false; }
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool) override {
    return std::vector<double>(works.size(), 1.0);
  }

 private:
  struct IdleModule : Module {
    int occupancy(const KernelLaunch&) const override { return 1; }
  };
  struct IdleKernel : PreparedKernel {
    void enqueue(const void* params, Stream) const override { asm volatile("" : : "r"(params) : "memory"); }
  };
  struct IdleTensorMap : PreparedTensorMap {
    void encode(void* map, void* array) const override { std::memcpy(map, &array, sizeof array); }
  };

  DeviceInfo info_ = generic_device({9, 0, 'a'});
};

/// An engine on the idle platform, without a cache file.
inline std::unique_ptr<Engine> idle_engine(EngineOptions options) {
  options.cache_file.clear();
  auto parts = std::make_unique<Engine::Parts>();
  parts->device = std::make_shared<IdleDevice>();
  parts->compiler = std::make_shared<IdleCompiler>();
  parts->cache = std::make_shared<Cache>(CacheOptions{});
  parts->options = std::move(options);
  return std::make_unique<Engine>(std::move(parts));
}

}  // namespace tunesmith::bench
