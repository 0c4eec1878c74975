#pragma once
// Selects the parts of the templates that a kernel uses. Internal to templates/.

#include <string>

namespace tunesmith {

/// Keeps the declarations of flattened templates (TemplateSet::flatten) that are reachable by name from `roots`, the
/// generated constants and entry points; drops all others with their comments, and what becomes empty. Names are compared as
/// words, so it may keep too much, but never too little. Expects namespace-level declarations to start in column 1 and to
/// end with a line that ends in ';' or '}', as clang-format writes them. #line directives stay correct. `joined`: merges a
/// namespace that one file closes and the next one reopens.
std::string keep_reachable(const std::string& templates, const std::string& roots, bool joined = true);

}  // namespace tunesmith
