#include "tests/support/gpu_kernels.h"

#include <atomic>
#include <thread>

#include "tests/support/covering.h"
#include "tuner/verify.h"

namespace tunesmith::test {

void GpuKernels::SetUp() {
  EngineOptions options = EngineOptions::from_environment();
  options.device = "cuda";
  options.mode = Mode::off;
  try {
    engine_ = std::make_unique<Engine>(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_device) throw;
    GTEST_SKIP() << "no GPU here";
  }
}

std::vector<Case> GpuKernels::case_if_valid(std::string_view op, const std::string& fields, const std::string& config) {
  try {
    return {case_of(op, fields, config)};
  } catch (const Error&) {
    return {};
  }
}

Built GpuKernels::build(const Case& c) {
  const Engine::Parts& parts = engine_->parts();
  return build_binary({*c.op().parse(c.problem), c.config, parts.templates}, device().info().arch, *parts.compiler,
                      *parts.cache);
}

std::shared_ptr<const Executable> GpuKernels::executable_of(const Case& c) {
  return make_executable(*c.op().parse(c.problem), c.config, build(c).binary, device());
}

void GpuKernels::compile_all(const std::vector<Case>& cases) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> compilers;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
    compilers.emplace_back([&] {
      for (std::size_t at = next++; at < cases.size(); at = next++) build(cases[at]);
    });
  for (std::thread& compiler : compilers) compiler.join();
}

LargestErrors GpuKernels::verify_all(const std::vector<Case>& all) { return verify_each(covering(all)); }

LargestErrors GpuKernels::verify_each(const std::vector<Case>& cases) {
  constexpr std::uint64_t seed = 5;
  compile_all(cases);
  LargestErrors errors;
  for (const Case& c : cases) errors.add(c, verify(*c.op().parse(c.problem), *executable_of(c), device(), seed));
  errors.print();
  return errors;
}

}  // namespace tunesmith::test
