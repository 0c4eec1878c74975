#include "templates/source_key.h"

#include "core/hash.h"

namespace tunesmith {

std::string source_key(const ParsedProblem& problem, const Config& config, const TemplateSet& templates) {
  const SourceParts parts = problem.source_parts(config);
  // Increase the number if render() generates a different program from equal parts. Lengths precede the parts, so no two
  // lists concatenate to the same text.
  std::string text = "tunesmith source 1";
  const auto add = [&](std::string_view part) {
    text.append("\n").append(std::to_string(part.size())).append(":").append(part);
  };
  add(problem.op().name());
  for (const std::string& file : parts.includes) add(file);
  add(templates.digest(parts.includes));
  add(parts.least_arch);
  add(config.text());
  for (const auto& [label, value] : parts.specialized_for) {
    add(label);
    add(value);
  }
  // As text and not as tokens: they may contain user source, and they are short.
  add(parts.constants);
  add(parts.kernels);
  return hash_hex(text);
}

}  // namespace tunesmith
