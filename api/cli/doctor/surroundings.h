#pragma once
// What the operating system says about the machine, without any CUDA library.

#include <filesystem>
#include <string>
#include <vector>

namespace tunesmith::cli {

struct Surroundings {
  std::string os;      ///< "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;  ///< "Linux 6.1.0 x86_64"
  std::string libc;    ///< "glibc 2.36"
  bool in_container = false;
  bool has_nvidia_gpu = false;            ///< on the PCI bus; containers see the host's
  std::vector<std::string> device_files;  ///< "/dev/nvidia0", or "/dev/dxg" (WSL)
  std::vector<std::string> closed_files;  ///< device files that this user cannot read and write
  std::string driver_version;             ///< of the loaded kernel module, "580.159.04"; empty if unknown
};

/// Looks at the files below `root`, which tests set.
Surroundings look_around(const std::filesystem::path& root = "/");

}  // namespace tunesmith::cli
