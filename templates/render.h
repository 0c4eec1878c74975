#pragma once
// (operation, problem, configuration) -> CUDA source. Pure: no files, no device, no clock; equal inputs, equal text.

#include <string>

#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

/// One self-contained translation unit: provenance comment, device headers, constants, kernel. It depends only on what the
/// kernel is specialized for, so problems that differ in rows alone share it. `config` is complete.
std::string render(const ParsedProblem& problem, const Config& config,
                   const TemplateSet& templates = TemplateSet::embedded());

}  // namespace tunesmith
