#pragma once
// Identifies a generated source without rendering it.

#include <string>

#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

/// Returns 32 hex digits. Equal keys mean that render() gives equal sources, up to comments, blanks and the division into
/// files of the templates. `config` is complete.
std::string source_key(const ParsedProblem& problem, const Config& config, const TemplateSet& templates);

}  // namespace tunesmith
