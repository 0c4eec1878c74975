#pragma once
// CUDA source -> cubin, in this process, through NVRTC. Needs no GPU and no driver.

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "jit/compiler.h"
#include "jit/cuda/library_search.h"

namespace tunesmith {

class NvrtcLibrary;

struct NvrtcOptions {
  CudaFolders folders;  ///< where to look for the library, besides the standard places
  /// Where sources that do not compile are written. Default empty: the system's temporary folder.
  std::filesystem::path dump_folder;
  /// The value of the environment variable NVRTC_APPEND_FLAGS, which NVRTC reads by itself: part of the identity.
  std::string append_flags;
};

/// Thread-safe. Making one costs nothing; identity() and options() look for the library but do not open it; the first
/// compile(), assembly() or supported_archs() opens it (about 100 ms when it is not in the page cache).
class NvrtcCompiler final : public Compiler {
 public:
  explicit NvrtcCompiler(NvrtcOptions options = {});
  ~NvrtcCompiler() override;

  /// "nvrtc libnvrtc=<build-id> libnvrtc-builtins=<build-id>", with the appended flags when there are any;
  /// "nvrtc none" when there is no NVRTC. Only an NVRTC that nothing but the loader can find has to be opened for it.
  std::string identity() const override;
  std::string options(const Arch& arch) const override;
  std::vector<Arch> supported_archs() const override;
  Binary compile(const CompileRequest& request) const override;
  /// The PTX, through the virtual architecture (compute_90a for sm_90a).
  std::string assembly(const CompileRequest& request) const override;

  /// What was found and what was tried, for `tunesmith doctor`. Does not open the library.
  NvrtcLocation location() const;
  /// "13.0". Opens the library; throws Error(no_compiler).
  std::string version() const;

 private:
  struct Output;
  enum class Format { cubin, ptx };

  const NvrtcLibrary& library() const;
  NvrtcLocation locate() const;
  Output run(const CompileRequest& request, Format format) const;

  const NvrtcOptions settings_;
  mutable std::mutex mutex_;  // guards what is found out on first use
  mutable std::unique_ptr<const NvrtcLibrary> library_;
  mutable std::unique_ptr<const NvrtcLocation> location_;
  mutable std::string identity_;
};

}  // namespace tunesmith
