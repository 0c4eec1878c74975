#pragma once
// Rules for #include lines that enforce the order of the layers: core <- templates <- jit; core <- cache;
// {templates, jit, cache} <- tuner <- api <- {cli, tests, bench}.

#include <string>
#include <vector>

#include "tests/support/source_tree.h"

namespace tunesmith {

/// Returns one line per include that breaks a rule: "jit/a.cpp:3: jit may not include cache (cache/cache.h)".
std::vector<std::string> layering_violations(const SourceTree& tree);

/// Counts the #include lines that the rules check.
int count_includes(const SourceTree& tree);

}  // namespace tunesmith
