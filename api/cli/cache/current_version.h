#pragma once
// Which rows of a cache this version can use. Binaries of other templates and toolchains, and rows with keys of other
// versions, are never found again; tuning records of older templates are.

#include <memory>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "jit/compiler.h"
#include "templates/template_set.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

/// The templates and compilers of this version on this machine. Not thread-safe.
class CurrentVersion {
 public:
  /// Opens the templates of the options. A compiler is opened for the first binary.
  explicit CurrentVersion(const EngineOptions& options);

  /// Returns why no lookup of this version finds the record on any device; empty if one can. There are few reasons, so that
  /// they can be counted. Driver and toolchain are provenance, not part of the key: a record of another driver is found.
  std::string why_unusable(const TuningRecord& record);
  /// Whether lookups find the record only as one of older templates (Origin::older). False for an unusable record.
  bool is_older(const TuningRecord& record);
  /// Returns how lookups find the record, for lists: "exact", "older", or why_unusable().
  std::string use_of(const TuningRecord& record);
  /// The same for a binary. `source` is its source, if known. A toolchain that this machine lacks is no reason: without a
  /// compiler, any binary of the source is used.
  std::string why_unusable(const BinaryInfo& binary, const std::optional<std::string>& source);

 private:
  struct Toolchain {
    std::shared_ptr<Compiler> compiler;  ///< empty: none on this machine
    bool opened = false;
  };

  const Compiler* compiler_of(const BinaryInfo& binary);
  /// The template digest of a record that this version would write. Throws Error for a record with keys of another version.
  std::string current_digest(const TuningRecord& record) const;

  const EngineOptions options_;
  const TemplateSet templates_;
  Toolchain nvrtc_, host_;
};

}  // namespace tunesmith::cli
