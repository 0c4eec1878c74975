#pragma once
// Which rows of a cache this version can use. Binaries of other templates and toolchains, and rows with keys of other
// versions, are never found again; tuning records of older templates are.

#include <map>
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
  /// The templates that the options ask for; compilers are opened when the first binary is asked about.
  explicit CurrentVersion(const EngineOptions& options);

  /// Why no lookup of this version finds the record, whatever the device; empty if one can. One of a few texts, so that they
  /// can be counted. Driver and toolchain are provenance, not identity: a record of another driver is found.
  std::string why_unusable(const TuningRecord& record);
  /// Whether lookups find the record only as one of older templates (Origin::older). False for an unusable record.
  bool is_older(const TuningRecord& record);
  /// How lookups find the record, for listings: "exact", "older", or why_unusable().
  std::string use_of(const TuningRecord& record);
  /// The same for a binary. `source` is what it was compiled from, where it is known. A toolchain that is not on this
  /// machine is no reason: without a compiler any binary of the source will do.
  std::string why_unusable(const BinaryInfo& binary, const std::optional<std::string>& source);

 private:
  struct Toolchain {
    std::shared_ptr<Compiler> compiler;  ///< empty: none on this machine
    bool opened = false;
  };

  const Compiler* compiler_of(const BinaryInfo& binary);
  /// The template digest of a record that this version would write. Throws Error for a record with keys of another version.
  const std::string& current_digest(const TuningRecord& record);

  const EngineOptions options_;
  const TemplateSet templates_;
  std::map<std::string, std::string> digests_;  ///< template_digest of keys, by the folder of the operation's templates
  Toolchain nvrtc_, host_;
};

}  // namespace tunesmith::cli
