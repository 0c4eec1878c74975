#pragma once
// Who may include whom. The order of the layers, core <- templates <- jit; core <- cache;
// {templates, jit, cache} <- tuner <- api <- {cli, tests, bench}, written as rules over #include lines.

#include <string>
#include <vector>

#include "tests/support/source_tree.h"

namespace tunesmith {

/// One line per include that breaks a rule: "jit/a.cpp:3: jit may not include cache (cache/cache.h)".
/// Empty when the tree is in order.
std::vector<std::string> layering_violations(const SourceTree& tree);

/// How many #include lines the rules looked at.
int count_includes(const SourceTree& tree);

}  // namespace tunesmith
