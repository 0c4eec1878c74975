// GPUs, NVRTC and cuBLASLt.

#include <sstream>

#include "api/cli/doctor/advice.h"
#include "api/cli/doctor/findings.h"
#include "api/cli/report/table.h"
#include "api/engine/parts.h"
#include "jit/cuda/cublas_lt_library.h"
#include "jit/cuda/driver.h"
#include "jit/cuda/nvrtc_compiler.h"

namespace tunesmith::cli {

GpuFinding look_for_gpus(const Surroundings& around, const char* visible_devices) {
  GpuFinding found;
  Finding& finding = found.finding;
  finding.facts = {{"found", false}, {"gpus", Json::array()}};
  Json tried = Json::array();
  for (const std::string& place : driver_candidates()) tried.push_back(place);
  finding.facts["tried"] = tried;
  finding.facts["kernel_module"] = around.driver_version;
  finding.facts["device_files"] = around.device_files;
  const DriverFacts driver = probe_driver();
  finding.diagnoses = driver_diagnoses(around, driver, visible_devices);
  if (finding.diagnoses.empty()) found.driver_version = driver.api_version;
  if (!driver.path.empty()) {
    finding.facts["found"] = true;
    finding.facts["path"] = driver.path;
    finding.facts["cuda_version"] = cuda_version(driver.api_version);
    finding.lines.emplace_back("driver", driver.path + ", CUDA " + cuda_version(driver.api_version));
  }
  int count = 0;
  try {
    count = Driver::open()->initialize();
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    if (driver.path.empty()) finding.lines.emplace_back("driver", std::string("not found: ") + error.what());
    finding.lines.emplace_back(
        "GPU", "none; --device host runs kernels on the CPU, prewarm --compile-only compiles for GPUs elsewhere");
    // The driver is new enough for the rules above, but lacks a function.
    if (finding.diagnoses.empty() && driver.gpus > 0)
      finding.diagnoses.push_back({error.what(), "install a newer NVIDIA driver"});
    return found;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) try {
      const std::shared_ptr<Device> device = open_device("cuda:" + std::to_string(ordinal));
      const DeviceInfo& info = device->info();
      Json gpu{{"ordinal", ordinal},
               {"name", info.name},
               {"arch", name(info.arch)},
               {"sm_count", info.sm_count},
               {"memory_bytes", info.memory_bytes},
               {"l2_bytes", info.l2_bytes},
               {"memory_gb_per_s", info.memory_gb_per_s},
               {"smem_bytes_per_block", info.smem_bytes_per_block},
               {"smem_bytes_per_sm", info.smem_bytes_per_sm},
               {"mig", info.mig},
               {"device_class", info.device_class()},
               {"provenance", device->provenance()}};
      const DeviceConditions now = device->conditions();
      gpu["sm_clock_now_mhz"] = now.sm_clock_mhz > 0 ? Json(now.sm_clock_mhz) : Json();
      gpu["slowed_by"] = now.slowed_by;
      finding.lines.emplace_back("GPU cuda:" + std::to_string(ordinal),
                                 info.name + ", " + name(info.arch) + ", " + std::to_string(info.sm_count) +
                                     " multiprocessors, " + bytes_text(static_cast<double>(info.memory_bytes)) + ", L2 " +
                                     bytes_text(static_cast<double>(info.l2_bytes)) + ", shared memory " +
                                     bytes_text(static_cast<double>(info.smem_bytes_per_block)) + " per block" +
                                     (info.mig ? ", MIG " + info.partition : ""));
      for (const auto& [fact, value] : device->provenance()) finding.lines.emplace_back("  " + fact, value);
      if (now.sm_clock_mhz > 0) finding.lines.emplace_back("  sm_clock_now", std::to_string(now.sm_clock_mhz) + " MHz");
      if (!now.slowed_by.empty()) finding.lines.emplace_back("  slowed_by", join(now.slowed_by));
      finding.facts["gpus"].push_back(std::move(gpu));
      found.archs.push_back(info.arch);
    } catch (const Error& error) {
      finding.lines.emplace_back("GPU cuda:" + std::to_string(ordinal), error.what());
      finding.facts["gpus"].push_back({{"ordinal", ordinal}, {"error", error.what()}});
      finding.diagnoses.push_back({"GPU cuda:" + std::to_string(ordinal) + " cannot be used: " + error.what(),
                                   "nvidia-smi shows its state; CUDA_VISIBLE_DEVICES selects others"});
    }
  return found;
}

Finding look_for_nvrtc(const EngineOptions& options, const GpuFinding& gpus) {
  Finding finding{{{"found", false}, {"others", Json::array()}}, {}};
  const std::shared_ptr<Compiler> compiler = open_compiler(DeviceInfo::Kind::cuda, options);
  const auto* nvrtc = dynamic_cast<const NvrtcCompiler*>(compiler.get());  // only NVRTC is searched for
  if (nvrtc == nullptr) return finding;
  NvrtcFacts found;
  found.location = nvrtc->location();
  finding.facts["searched"] = found.location.tried;
  found.others = find_every_nvrtc(cuda_folders(options));
  if (!found.others.empty()) found.others.erase(found.others.begin());  // the one in use
  try {
    const std::string version = nvrtc->version();
    found.archs = nvrtc->supported_archs();
    char dot = 0;
    std::istringstream(version) >> found.major >> dot >> found.minor;
    std::string archs;
    Json list = Json::array();
    for (const Arch& arch : found.archs) {
      archs += (archs.empty() ? "" : " ") + name(arch);
      list.push_back(name(arch));
    }
    finding.facts.update({{"found", true},
                          {"version", version},
                          {"path", found.location.library.string()},
                          {"found_in", found.location.found_in},
                          {"identity", nvrtc->identity()},
                          {"archs", list}});
    finding.lines = {{"NVRTC", version + (found.location.found()
                                              ? ", " + found.location.library.string() + " (" + found.location.found_in + ")"
                                              : " (known to the loader)")},
                     {"  identity", nvrtc->identity()},
                     {"  compiles for", archs}};
  } catch (const Error& error) {
    found.error = error.what();
    finding.facts["error"] = error.what();
    finding.lines.emplace_back("NVRTC", std::string("not usable: ") + error.what());
  }
  finding.lines.emplace_back("  searched", join(found.location.tried));
  for (const NvrtcLocation& other : found.others) {
    const std::string version = std::to_string(other.major) + (other.minor < 0 ? "" : "." + std::to_string(other.minor));
    finding.facts["others"].push_back(
        {{"path", other.library.string()}, {"version", version}, {"found_in", other.found_in}});
    finding.lines.emplace_back("  not in use", version + ", " + other.library.string() + " (" + other.found_in + ")");
  }
  found.in_environment = !options.cuda_environment.python_folders.empty();
  finding.diagnoses = nvrtc_diagnoses(found, gpus.driver_version, gpus.archs);
  return finding;
}

/// Optional: only linear + cross-entropy needs it.
Finding look_for_cublas_lt(const EngineOptions& options) {
  Finding finding{{{"found", false}}, {}};
  int newest_major = 13;
  try {
    newest_major = Driver::open()->api_version() / 1000;
  } catch (const Error&) {  // no driver: look for the library anyway
  }
  try {
    const CublasLtLibrary library(find_cublas_lt(cuda_folders(options), newest_major), newest_major);
    finding.facts = {{"found", true},
                     {"version", library.version()},
                     {"path", library.location().library.string()},
                     {"found_in", library.location().found_in}};
    finding.lines.emplace_back("cuBLASLt", library.version() + ", " + library.location().library.string() + " (" +
                                               library.location().found_in + ")");
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    finding.lines.emplace_back("cuBLASLt", std::string("not usable, only linear + cross-entropy needs it: ") + error.what());
  }
  return finding;
}

}  // namespace tunesmith::cli
