// The templates and digests that the build put into the library.

#include <span>
#include <utility>

#include "templates/template_contents.h"

namespace tunesmith {

std::span<const std::pair<std::string_view, std::string_view>> embedded_templates();
// By file and by folder; written by cmake/template_digests.cpp.
extern const std::pair<std::string_view, std::string_view> embedded_digests[];
extern const std::size_t embedded_digests_count;

const TemplateSet& TemplateSet::embedded() {
  static const TemplateSet set = [] {
    const auto contents = std::make_shared<Contents>();
    for (const auto& [name, text] : embedded_templates()) contents->files.emplace_hint(contents->files.end(), name, text);
    for (std::size_t i = 0; i < embedded_digests_count; ++i)
      contents->digests.emplace_hint(contents->digests.end(), embedded_digests[i].first, embedded_digests[i].second);
    return TemplateSet(contents);
  }();
  return set;
}

}  // namespace tunesmith
