#pragma once
// What copies of a TemplateSet share. Internal to templates/.

#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "templates/template_set.h"

namespace tunesmith {

struct TemplateSet::Contents {
  TemplateSet::Files files;
  std::list<std::string> owned;  ///< what `files` refers to, unless it is embedded

  /// By file ("softmax/resident.cuh") or folder ("softmax"). Known from the start for embedded files; otherwise filled on
  /// demand, because most files of a folder are never asked about.
  mutable std::map<std::string, std::string, std::less<>> digests;

  /// The digest of this name, from `compute` if it is not known.
  template <typename Compute>
  std::string digest(std::string_view name, const Compute& compute) const {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = digests.find(name); known != digests.end()) return known->second;
    }
    std::string computed = compute();
    const std::lock_guard lock(mutex_);
    return digests.emplace(name, std::move(computed)).first->second;
  }

 private:
  mutable std::mutex mutex_;
};

}  // namespace tunesmith
