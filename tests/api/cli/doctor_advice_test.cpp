// What doctor advises on machines that a test cannot set up: device files, kernel modules and containers, as files below a
// folder, and facts about drivers.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "api/cli/doctor/advice.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

class DoctorAdvice : public testing::Test {
 protected:
  DoctorAdvice() {
    std::string pattern = (fs::temp_directory_path() / "tunesmith-doctor-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~DoctorAdvice() override { fs::remove_all(root_); }

  void put(const std::string& file, const std::string& text = "") const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void put_gpu() const {
    put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  }
  void put_module() const {
    put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan  6 2026\n");
    for (const char* file : {"dev/nvidiactl", "dev/nvidia0", "dev/nvidia-uvm"}) put(file);
  }

  static DriverFacts no_library() {
    return {.loader_error = "libcuda.so.1: cannot open shared object file: No such file or directory"};
  }
  static DriverFacts started(int version = 13000, int gpus = 1) {
    return {.path = "/lib/libcuda.so.1", .api_version = version, .gpus = gpus};
  }
  static DriverFacts failed(cuda::Result result) {
    return {.path = "/lib/libcuda.so.1", .api_version = 13000, .init = result, .init_error = "CUDA_ERROR"};
  }
  /// Expects one diagnosis with these texts.
  void expect(const DriverFacts& driver, const std::string& what, const std::string& fix) const {
    const std::vector<Diagnosis> found = driver_diagnoses(look_around(root_), driver, nullptr);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NE(found[0].what.find(what), std::string::npos) << found[0].what;
    EXPECT_NE(found[0].fix.find(fix), std::string::npos) << found[0].fix;
  }

  fs::path root_;
};

TEST_F(DoctorAdvice, LooksAround) {
  put("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  put_module();
  put("dev/nvidia-caps");
  put("dev/null");
  Surroundings found = look_around(root_);
  EXPECT_EQ(found.os, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(found.driver_version, "580.159.04");
  EXPECT_EQ(found.device_files, (std::vector<std::string>{"/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"}));
  EXPECT_TRUE(found.closed_files.empty());
  EXPECT_FALSE(found.in_container);
  EXPECT_FALSE(found.has_nvidia_gpu);
  put_gpu();
  put("run/.containerenv");
  found = look_around(root_);
  EXPECT_TRUE(found.in_container);
  EXPECT_TRUE(found.has_nvidia_gpu);
  put("sys/bus/pci/devices/0000:01:00.0/class", "0x040300\n");  // the GPU's sound device
  EXPECT_FALSE(look_around(root_).has_nvidia_gpu);
}

TEST_F(DoctorAdvice, AMachineWithoutAGpuHasNoProblem) {
  EXPECT_TRUE(driver_diagnoses(look_around(root_), no_library(), nullptr).empty());
  put_module();
  EXPECT_TRUE(driver_diagnoses(look_around(root_), started(), nullptr).empty());
}

TEST_F(DoctorAdvice, AGpuWithoutADriver) {
  put_gpu();
  expect(no_library(), "an NVIDIA GPU, but no driver", "apt-get install nvidia-driver");
}

TEST_F(DoctorAdvice, DeviceFilesWithoutTheLibrary) {
  put_module();
  expect(no_library(), "driver 580.159.04 is loaded, but its library", "apt-get install libcuda1");
  put(".dockerenv");
  expect(no_library(), "the container has the devices of the driver 580.159.04",
         "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
}

TEST_F(DoctorAdvice, AContainerWithoutItsGpus) {
  put_gpu();
  put(".dockerenv");
  expect(no_library(), "neither its devices nor libcuda.so.1", "docker run --gpus all");
  expect(failed(cuda::error_no_device), "there is no /dev/nvidia0", "docker run --gpus all");
}

TEST_F(DoctorAdvice, ALibraryWithoutDeviceFiles) {
  expect(failed(cuda::error_no_device), "there is no /dev/nvidia0", "modprobe nvidia");
  put("dev/nvidiactl");
  expect(failed(cuda::error_no_device), "there is no /dev/nvidia0", "modprobe nvidia");
  put("dev/nvidia0");
  expect(failed(999), "there is no /dev/nvidia-uvm", "nvidia-modprobe");
  put("dev/nvidia-uvm");
  expect(failed(999), "does not start", "nvidia-smi");
  expect(started(13000, 0), "sees no GPU", "nvidia-smi");
}

TEST_F(DoctorAdvice, DeviceFilesOfAnotherUser) {
  put_module();
  Surroundings around = look_around(root_);
  around.closed_files = {"/dev/nvidia0"};  // root may open every file
  const std::vector<Diagnosis> found = driver_diagnoses(around, failed(cuda::error_no_device), nullptr);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].what.find("this user may not open /dev/nvidia0"), std::string::npos) << found[0].what;
  EXPECT_NE(found[0].fix.find("group"), std::string::npos) << found[0].fix;
}

TEST_F(DoctorAdvice, LibraryAndModuleOfDifferentVersions) {
  put_module();
  expect(failed(cuda::error_system_driver_mismatch), "the module is 580.159.04", "reboot");
  put(".dockerenv");
  expect(failed(cuda::error_system_driver_mismatch), "the module is 580.159.04", "restart the container");
}

TEST_F(DoctorAdvice, AnOldDriver) {
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.61.05  Thu\n");
  expect(started(11080), "the driver 520.61.05 (/lib/libcuda.so.1) is for CUDA 11.8", "driver 525 or newer, then reboot");
  put(".dockerenv");
  expect(started(11080), "is for CUDA 11.8", "on the host of this container");
}

TEST_F(DoctorAdvice, NoNvrtc) {
  NvrtcFacts nvrtc;
  nvrtc.error = "no NVRTC was found";
  const auto fix = [&](int driver_version) {
    const std::vector<Diagnosis> found = nvrtc_diagnoses(nvrtc, driver_version, {});
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? "" : found[0].what + ": " + found[0].fix;
  };
  const std::string what = "there is no NVRTC: kernels cannot be compiled for GPUs: ";
  EXPECT_EQ(fix(0), what + "pip install --target ~/nvrtc nvidia-cuda-nvrtc && export TUNESMITH_CUDA=~/nvrtc");
  EXPECT_EQ(fix(13000), fix(0));
  EXPECT_EQ(fix(12040), what + "pip install --target ~/nvrtc nvidia-cuda-nvrtc-cu12 && export TUNESMITH_CUDA=~/nvrtc");
  nvrtc.in_environment = true;
  EXPECT_EQ(fix(0), what + "pip install nvidia-cuda-nvrtc");
}

TEST_F(DoctorAdvice, AnNvrtcThatDoesNotKnowTheGpu) {
  const auto location = [](const char* library, int major) {
    NvrtcLocation found;
    found.library = library;
    found.builtins = found.library.parent_path() / "builtins";
    found.major = major;
    found.minor = 0;
    return found;
  };
  NvrtcFacts nvrtc;
  nvrtc.location = location("/a/libnvrtc.so.12", 12);
  nvrtc.major = 12;
  nvrtc.archs = {parse_arch("sm_90"), parse_arch("sm_90a")};
  EXPECT_TRUE(nvrtc_diagnoses(nvrtc, 13000, {parse_arch("sm_90a")}).empty());
  EXPECT_TRUE(nvrtc_diagnoses(nvrtc, 0, {}).empty());
  std::vector<Diagnosis> found = nvrtc_diagnoses(nvrtc, 13000, {parse_arch("sm_90a"), parse_arch("sm_100a")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].what.find("NVRTC 12.0 (/a/libnvrtc.so.12) does not compile for this GPU, sm_100a"), std::string::npos);
  EXPECT_NE(found[0].fix.find("nvidia-cuda-nvrtc && "), std::string::npos) << found[0].fix;
  nvrtc.others = {location("/b/libnvrtc.so.13", 13)};
  found = nvrtc_diagnoses(nvrtc, 13000, {parse_arch("sm_100a")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fix, "export TUNESMITH_CUDA='/b'");
}

}  // namespace
}  // namespace tunesmith::cli
