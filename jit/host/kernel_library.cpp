#include "jit/host/kernel_library.h"

#include <dlfcn.h>

#include "jit/host/temporary_folder.h"
#include "jit/loader_error.h"
#include "tunesmith/error.h"

namespace tunesmith::host {
namespace {

// Loading a library with a sanitizer that the program was not built with would end the process instead of failing.
void check_sanitizer(const std::string& image) {
  const bool needs_asan = image.find("__asan_init") != std::string::npos;
  const bool needs_tsan = image.find("__tsan_init") != std::string::npos;
#ifdef TUNESMITH_WITH_TSAN
  constexpr bool with_tsan = true;
#else
  constexpr bool with_tsan = false;
#endif
  if ((needs_asan && !with_asan) || (needs_tsan && !with_tsan))
    throw Error(ErrorCode::device_failed,
                "the kernel library was compiled with -fsanitize=", needs_asan ? "address" : "thread",
                " and this program was not; build both with the same sanitizer");
}

}  // namespace

KernelLibrary::KernelLibrary(const std::string& image, unsigned stack_shift) {
  if (image.compare(0, 4,
                    "\x7f"
                    "ELF") != 0)
    throw Error(ErrorCode::device_failed, "the image of ", image.size(), " bytes is not a shared library; compile it with ",
                "HostCompiler");
  check_sanitizer(image);
  {
    // The folder's name is unique, so the loader cannot mistake the file for one that it has loaded. The mapping outlives
    // the file.
    const TemporaryFolder folder;
    const std::string path = folder.write("kernels.so", image);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle_ == nullptr) throw Error(ErrorCode::device_failed, "cannot load a kernel library: ", loader_error());
  auto* const open = reinterpret_cast<abi::Open*>(dlsym(handle_, abi::open_symbol));
  table_ = open == nullptr ? nullptr : open(&ResidentGroup::services(), stack_shift);
  if (table_ == nullptr || table_->version != abi::version) {
    dlclose(handle_);
    throw Error(ErrorCode::device_failed, "the image is not a kernel library of this version of the host executor (ABI ",
                abi::version, "); compile it again");
  }
}

KernelLibrary::~KernelLibrary() { dlclose(handle_); }

HostModule::HostModule(std::shared_ptr<const KernelLibrary> library, std::size_t source, const DeviceInfo& device)
    : library_(std::move(library)), device_(device) {
  const abi::Source& part = library_->table().sources[source];
  entries_.assign(part.entries, part.entries + part.count);
}

int HostModule::occupancy(const KernelLaunch& launch) const {
  find(launch.entry);
  return why_not_launchable(launch, device_).empty() ? 1 : 0;
}

const abi::Entry& HostModule::find(std::string_view entry) const {
  std::string known;
  for (const abi::Entry& each : entries_) {
    if (each.name == entry) return each;
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Error(ErrorCode::device_failed, "the binary has no kernel '", entry, "'; it has ",
              known.empty() ? std::string("none") : known);
}

}  // namespace tunesmith::host
