#pragma once
// Which rows of a cache this version can use: rows of other templates, keys and toolchains are never found again.

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
  /// Opens the templates of the options. A compiler is opened for the first binary.
  explicit CurrentVersion(const EngineOptions& options);

  /// Returns why no lookup of this version finds the record on any device; empty if one can. There are few reasons, so that
  /// they can be counted. Driver and toolchain are provenance, not part of the key: a record of another driver is found.
  std::string why_unusable(const TuningRecord& record);
  /// The same for a binary. `source` is its source, if known. A toolchain that this machine lacks is no reason: without a
  /// compiler, any binary of the source is used.
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
