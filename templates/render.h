#pragma once
// Renders (operation, problem, configuration) to CUDA source. Pure: no files, no device, no clock; equal inputs give equal
// text.

#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

/// Returns one self-contained translation unit: provenance comment, device headers, constants, kernel. It depends only on
/// what the kernel is specialized for, so problems that differ only in rows share it. `config` must be complete.
std::string render(const ParsedProblem& problem, const Config& config,
                   const TemplateSet& templates = TemplateSet::embedded());

/// Returns the kernel alone, for reading: the template that defines it, the constants and the entry points.
std::string render_kernel(const ParsedProblem& problem, const Config& config,
                          const TemplateSet& templates = TemplateSet::embedded());

struct SourceFile {
  std::string name, content;  ///< "device/vector.cuh"
};
/// Returns the same source as separate files: the reduced headers, and last the file with constants and entry points, which
/// compiles with `nvcc -I FOLDER`.
std::vector<SourceFile> render_files(const ParsedProblem& problem, const Config& config,
                                     const TemplateSet& templates = TemplateSet::embedded());

}  // namespace tunesmith
