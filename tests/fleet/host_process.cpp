// fleet_host_process CACHE URL LOG SECONDS: one process of a host, with a scripted GPU, that needs a key. Appends "begin
// PID" to LOG when it starts to tune, which takes SECONDS. Ends when the key is tuned, here or elsewhere; fails after a
// minute. For namespaces_test.sh.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/api/engine/fakes.h"
#include "tests/fleet/scripted_tuner.h"

int main(int argc, char** argv) {
  using namespace tunesmith;
  if (argc != 5) return 2;
  EngineOptions options = fakes::in_mode(Mode::tune);
  options.specialize = Specialize::exact;
  options.remote = argv[2];
  fakes::FakeEngine fake(options, DeviceInfo::Kind::cuda, argv[1]);
  fleet::script_tuner(
      fake.engine->parts(), std::chrono::milliseconds(1000 * std::strtol(argv[4], nullptr, 10)),
      [log = std::string(argv[3])] { std::ofstream(log, std::ios::app) << "begin " << getpid() << std::endl; });
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(64, 1000, DType::f32);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < until) {
    const Origin origin = fake.engine->prepare(problem).origin();
    if (origin == Origin::tuned || origin == Origin::exact) {
      std::printf("%s, %d warnings\n", std::string(name(origin)).c_str(), fake.logged("warning: "));
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fake.engine->tune_pending(0.01);
  }
  std::puts("not tuned within a minute");
  return 1;
}
