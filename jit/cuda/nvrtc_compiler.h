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
  CudaFolders folders;  ///< folders to search in addition to the standard ones
  /// Folder for sources that do not compile. Default empty: the system's temporary folder.
  std::filesystem::path dump_folder;
  /// Value of the environment variable NVRTC_APPEND_FLAGS. NVRTC reads it itself; here it becomes part of the identity.
  std::string append_flags;
};

/// Compiles with NVRTC. Thread-safe. The constructor is free; identity() and options() find the library but do not open it;
/// the first compile(), assembly() or supported_archs() opens it (about 100 ms if it is not in the page cache).
class NvrtcCompiler final : public Compiler {
 public:
  explicit NvrtcCompiler(NvrtcOptions options = {});
  ~NvrtcCompiler() override;

  /// Returns "nvrtc libnvrtc=<build-id> libnvrtc-builtins=<build-id>" with any appended flags, or "nvrtc none". Opens the
  /// library only if the search does not find it and the loader does.
  std::string identity() const override;
  std::string options(const Arch& arch) const override;
  std::vector<Arch> supported_archs() const override;
  Binary compile(const CompileRequest& request) const override;
  /// Returns the PTX for the virtual architecture (compute_90a for sm_90a).
  std::string assembly(const CompileRequest& request) const override;

  /// Returns where the library was found and the places tried, for `tunesmith doctor`. Does not open the library.
  NvrtcLocation location() const;
  /// Returns the version, e.g. "13.0". Opens the library; throws Error(no_compiler).
  std::string version() const;

 private:
  struct Output;
  enum class Format { cubin, ptx };

  const NvrtcLibrary& library() const;
  NvrtcLocation locate() const;
  Output run(const CompileRequest& request, Format format) const;

  const NvrtcOptions settings_;
  mutable std::mutex mutex_;  // guards the members that the first use sets
  mutable std::unique_ptr<const NvrtcLibrary> library_;
  mutable std::unique_ptr<const NvrtcLocation> location_;
  mutable std::string identity_;
};

}  // namespace tunesmith
