#pragma once
// What of a cache this version can still use: rows of other templates, keys and toolchains are never found again.

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

  /// Why no lookup of this version finds the record, whatever the device; empty: one can. One of few texts, so that they can
  /// be counted. Driver and toolchain are provenance, not identity: a record of another driver is found.
  std::string why_unusable(const TuningRecord& record);
  /// The same for a binary. `source` is what it was compiled from, where it is known. A toolchain that is not on this
  /// machine is no reason: without a compiler any binary of the source will do.
  std::string why_unusable(const BinaryInfo& binary, const std::optional<std::string>& source);

 private:
  struct Toolchain {
    std::shared_ptr<Compiler> compiler;  ///< empty: none on this machine
    bool opened = false;
  };

  const Compiler* compiler_of(const BinaryInfo& binary);

  const EngineOptions options_;
  const TemplateSet templates_;
  std::map<std::string, std::string> digests_;  ///< template_digest of keys, by the folder of the operation's templates
  Toolchain nvrtc_, host_;
};

}  // namespace tunesmith::cli
