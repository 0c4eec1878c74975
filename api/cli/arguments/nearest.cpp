#include "api/cli/arguments/nearest.h"

#include "core/nearest.h"

namespace tunesmith::cli {

std::string nearest(std::string_view typed, const std::vector<std::string>& allowed) {
  const std::vector<std::string_view> names(allowed.begin(), allowed.end());
  return std::string(nearest_name(typed, names));
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& allowed) {
  const std::string best = nearest(typed, allowed);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::string suggestion(std::string_view typed, const std::vector<std::string>& allowed) {
  const std::string hint = did_you_mean(typed, allowed);
  return (hint.empty() ? "; allowed: " : hint + " Allowed: ") + listed(allowed);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace tunesmith::cli
