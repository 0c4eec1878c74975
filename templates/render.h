#pragma once
// Renders (operation, problem, configuration) to CUDA source. Pure: no files, no device, no clock; equal inputs give equal
// text.

#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

struct SourceFile {
  std::string name, content;  ///< "device/vector.cuh"
};

/// The source of a kernel: what an operation generates for a problem and a configuration, and the templates it includes. It
/// depends only on what the kernel is specialized for, so problems that differ only in rows share it. Immutable.
class KernelSource {
 public:
  /// `config` must be complete.
  KernelSource(const ParsedProblem& problem, const KernelConfig& config,
               const TemplateSet& templates = TemplateSet::embedded());
  KernelSource(const ParsedProblem& problem, const Config& config, const TemplateSet& templates = TemplateSet::embedded())
      : KernelSource(problem, problem.configure(config), templates) {}

  const Op& op() const noexcept { return op_; }
  /// Returns the name of its file: "softmax.cu".
  std::string file() const { return std::string(op_.name()) + ".cu"; }
  /// Returns 32 hex digits that identify the source. Equal keys mean that render() gives equal sources, up to comments,
  /// blanks and the division into files of the templates.
  const std::string& key() const noexcept { return key_; }

  /// Returns one self-contained translation unit: provenance comment, device headers, constants, kernel.
  std::string render() const;
  /// Returns the kernel alone, for reading: the template that defines it, the constants and the entry points.
  std::string render_kernel() const;
  /// Returns the source without the branches that this configuration does not take, for reading: render(), or the kernel
  /// alone as in render_kernel(). It compiles to the same machine code and has no #line directives.
  std::string render_folded(bool kernel_alone) const;
  /// Returns the same source as separate files: the reduced headers, and last the file with constants and entry points,
  /// which compiles with `nvcc -I FOLDER`.
  std::vector<SourceFile> render_files() const;

 private:
  /// Returns the constants and the entry points.
  std::string own() const;
  /// Returns the templates, as far as own() reaches them. `joined`: see keep_reachable().
  std::string device(bool joined) const;
  /// Returns the provenance comment, without the line that names the kernel's position.
  std::string head() const;
  void append_own(std::string& source) const;

  const Op& op_;
  const TemplateSet templates_;
  const std::string config_;
  const SourceParts parts_;
  std::string key_;
};

/// Returns KernelSource::render() of a source that is not used again.
inline std::string render(const ParsedProblem& problem, const Config& config,
                          const TemplateSet& templates = TemplateSet::embedded()) {
  return KernelSource(problem, config, templates).render();
}

}  // namespace tunesmith
