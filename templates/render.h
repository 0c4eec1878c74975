#pragma once
// (operation, problem, configuration) -> CUDA source. Pure: no files, no device, no clock; equal inputs, equal text.

#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

/// One self-contained translation unit: provenance comment, device headers, constants, kernel. It depends only on what the
/// kernel is specialized for, so problems that differ in rows alone share it. `config` is complete.
std::string render(const ParsedProblem& problem, const Config& config,
                   const TemplateSet& templates = TemplateSet::embedded());

/// The kernel and its constants alone, for reading: the main template's part of render(), the constants and entry points.
std::string render_kernel(const ParsedProblem& problem, const Config& config,
                          const TemplateSet& templates = TemplateSet::embedded());

struct SourceFile {
  std::string name, content;  ///< "device/vector.cuh"
};
/// The same source as files: the headers that it uses, without what the kernels do not reach, and last the file with the
/// constants and entry points, which `nvcc -I FOLDER` compiles.
std::vector<SourceFile> render_files(const ParsedProblem& problem, const Config& config,
                                     const TemplateSet& templates = TemplateSet::embedded());

}  // namespace tunesmith
