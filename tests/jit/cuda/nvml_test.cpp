// Provenance and conditions through a scripted NVML, in the names of new and of old drivers.

#include "jit/cuda/nvml.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/jit/cuda/device_fixture.h"
#include "tests/jit/cuda/nvml_fake.h"

namespace tunesmith {
namespace {

class NvmlTest : public CudaDeviceTest, public testing::WithParamInterface<const char*> {
 protected:
  NvmlTest()
      : library_(dlopen(GetParam(), RTLD_NOW)), nvml_(reinterpret_cast<FakeNvml* (*)()>(dlsym(library_, "fake_nvml"))()) {
    *nvml_ = {};
    nvml_library_ = GetParam();
    nvml_->uuid = device().uuid();
    nvml_->pids = {self()};
  }
  ~NvmlTest() override {
    device_.reset();
    EXPECT_EQ(nvml_->open, 0) << "not shut down";
    dlclose(library_);
  }
  static unsigned self() { return static_cast<unsigned>(getpid()); }

  void* library_;
  FakeNvml* nvml_;
};

TEST_P(NvmlTest, ProvenanceHasThePowerLimit) { EXPECT_EQ(device().provenance().at("power_limit_w"), "700"); }

TEST_P(NvmlTest, ConditionsHaveClocksAndTheirReasons) {
  EXPECT_EQ(device().conditions().sm_clock_mhz, 1980);
  EXPECT_TRUE(device().conditions().slowed_by.empty());
  nvml_->sm_clock_mhz = 1620;
  nvml_->clock_reasons = 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0x40 | 0x100;  // idle, set clocks and groups are no disturbance
  EXPECT_EQ(device().conditions().sm_clock_mhz, 1620);
  EXPECT_EQ(device().conditions().slowed_by, (std::vector<std::string>{"power cap", "temperature"}));
  nvml_->clock_reasons = 0x8 | 0x80;
  EXPECT_EQ(device().conditions().slowed_by, (std::vector<std::string>{"hardware slowdown", "power brake"}));
  EXPECT_EQ(nvml_->open, 1) << "opened once";
}

TEST_P(NvmlTest, FactsThatNvmlRefusesAreUnknown) {
  nvml_->fact_result = 3;  // not supported, as some of them on a MIG instance
  nvml_->pids.push_back(1u << 22);
  const DeviceConditions now = device().conditions();
  EXPECT_EQ(now.sm_clock_mhz, 0);
  EXPECT_TRUE(now.slowed_by.empty());
  EXPECT_TRUE(now.other_processes.empty());
  nvml_->fact_result = 0;
  nvml_->uuid = "another";
  EXPECT_EQ(device().conditions().sm_clock_mhz, 0);
}

TEST_P(NvmlTest, WithoutNvmlNothingIsKnown) {
  nvml_->init_result = 9;
  EXPECT_EQ(device().conditions().sm_clock_mhz, 0);
  EXPECT_FALSE(device().provenance().contains("power_limit_w"));
  nvml_library_ = "libno-such-nvml.so.1";
  device_.reset();
  EXPECT_EQ(device().conditions().sm_clock_mhz, 0);
}

/// Process numbers that the kernel does not give: more than 2^22.
constexpr unsigned strangers[] = {5000002, 5000001};

TEST_P(NvmlTest, OtherProcessesAreSorted) {
  nvml_->pids.insert(nvml_->pids.end(), std::begin(strangers), std::end(strangers));
  EXPECT_EQ(device().conditions().other_processes, (std::vector<int>{5000001, 5000002}));
}

TEST_P(NvmlTest, ManyProcessesAreAllSeen) {
  for (unsigned i = 0; i < 200; ++i) nvml_->pids.push_back(5000001 + i);
  EXPECT_EQ(device().conditions().other_processes.size(), 200u);
}

// In a container with process numbers of its own.
TEST_P(NvmlTest, ProcessesOfAnotherNamespaceAreUnknown) {
  nvml_->pids = {strangers[0]};
  EXPECT_TRUE(device().conditions().other_processes.empty());
}

TEST_P(NvmlTest, ParentsAndChildrenAreNoStrangers) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  nvml_->pids.push_back(static_cast<unsigned>(child));
  nvml_->pids.push_back(static_cast<unsigned>(getppid()));
  EXPECT_TRUE(device().conditions().other_processes.empty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(device().conditions().other_processes, std::vector<int>{child}) << "not one of ours any more";
}

/// What a child process says about a process number.
bool is_family_of_child(pid_t pid) {
  const pid_t child = fork();
  if (child == 0) _exit(is_family(pid) ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 1;
}

// The next problem of a command compiles in a process of its own: another child of one parent.
TEST(Family, WorkersOfOneCommandAreFamily) {
  const pid_t sibling = fork();
  if (sibling == 0) {
    pause();
    _exit(0);
  }
  EXPECT_TRUE(is_family_of_child(sibling));
  EXPECT_TRUE(is_family_of_child(getpid()));
  EXPECT_FALSE(is_family_of_child(static_cast<pid_t>(strangers[0])));
  kill(sibling, SIGKILL);
  waitpid(sibling, nullptr, 0);
}

// `train & tunesmith tune` in a shell.
TEST(Family, ProcessesOfOneShellAreStrangers) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t shell = fork();
  if (shell == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", "sleep 60 >/dev/null & echo $!; wait", nullptr);
    _exit(1);
  }
  close(pipe_ends[1]);
  char text[32] = {};
  ASSERT_GT(read(pipe_ends[0], text, sizeof text - 1), 0);
  close(pipe_ends[0]);
  const auto trainer = static_cast<pid_t>(std::atoi(text));
  EXPECT_TRUE(is_family(trainer)) << "a grandchild";
  kill(shell, SIGKILL);
  waitpid(shell, nullptr, 0);
  EXPECT_FALSE(is_family(trainer)) << "an orphan";
  kill(trainer, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Drivers, NvmlTest, testing::Values(FAKE_LIBNVML, FAKE_LIBNVML_OLD),
                         [](const auto& driver) { return driver.index == 0 ? "New" : "Old"; });

}  // namespace
}  // namespace tunesmith
