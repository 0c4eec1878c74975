#pragma once
// Removes the branches that a kernel does not take, for reading. Internal to templates/.

#include <string>

namespace tunesmith {

/// Replaces each `if constexpr` and each conditional expression of flattened templates by the branch that `constants`
/// decide: the members of the generated objects (shape, config, options), and constexpr variables and variable templates
/// that follow from them. Conditions on anything else stay. The result compiles to the same machine code. An object decides
/// nothing if there are several of its type, because a template may be instantiated with either.
std::string fold_branches(std::string templates, const std::string& constants);

}  // namespace tunesmith
