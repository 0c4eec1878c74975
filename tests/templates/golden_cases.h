#pragma once
// Problems and configurations whose sources the tests of rendering look at.

#include <span>
#include <string>

#include "templates/op.h"
#include "templates/template_set.h"

namespace tunesmith {

struct GoldenCase {
  const char *name, *op, *problem, *arch, *config;
};
/// Every file that defines kernels of rows, every kind of cooperative group, and the options.
extern const std::span<const GoldenCase> golden_cases;

struct ParsedCase {
  ParsedProblemPtr problem;
  Config config;
};
ParsedCase parsed(const GoldenCase& c);
/// Returns the generated source of a case.
std::string rendered(const GoldenCase& c, const TemplateSet& templates = TemplateSet::embedded());

}  // namespace tunesmith
