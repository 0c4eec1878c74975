// The templates and digests that the build put into the library.

#include <utility>

#include "templates/template_contents.h"

namespace tunesmith {

extern const std::pair<std::string_view, std::string_view> embedded_templates[];
extern const std::size_t embedded_templates_count;
// By file and by folder; written by cmake/template_digests.cpp.
extern const std::pair<std::string_view, std::string_view> embedded_digests[];
extern const std::size_t embedded_digests_count;

const TemplateSet& TemplateSet::embedded() {
  static const TemplateSet set = [] {
    const auto contents = std::make_shared<Contents>();
    for (std::size_t i = 0; i < embedded_templates_count; ++i)
      contents->files.emplace_hint(contents->files.end(), embedded_templates[i].first, embedded_templates[i].second);
    for (std::size_t i = 0; i < embedded_digests_count; ++i)
      contents->digests.emplace_hint(contents->digests.end(), embedded_digests[i].first, embedded_digests[i].second);
    return TemplateSet(contents);
  }();
  return set;
}

}  // namespace tunesmith
