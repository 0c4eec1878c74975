#pragma once
// What of the templates a kernel uses. Internal to templates/.

#include <string>

namespace tunesmith {

/// Keeps the declarations of flattened templates (TemplateSet::flatten) that `roots`, the generated constants and entry
/// points, reach by name; drops the others with their comments, and what is empty then. Names are compared as words, so too
/// much may be kept, never too little. Expects namespace-level declarations to start in column 1 and to end with a line that
/// ends with ';' or '}', as clang-format writes them. The #line directives of the result are true.
/// `joined`: a namespace that one file closes and the next one opens stays open.
std::string keep_reachable(const std::string& templates, const std::string& roots, bool joined = true);

}  // namespace tunesmith
