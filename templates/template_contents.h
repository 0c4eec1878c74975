#pragma once
// Contents shared by copies of a TemplateSet. Internal to templates/.

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
  std::list<std::string> owned;  ///< owns the strings of `files`, unless they are embedded

  /// Digests by file ("softmax/resident.cuh") or folder ("softmax"). Embedded files have theirs from the start; others are
  /// computed on demand, because most files of a folder are never used.
  mutable std::map<std::string, std::string, std::less<>> digests;

  /// Returns the digest of this name; computes and stores it if it is unknown.
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
