#pragma once
// The one exception type of the library.

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace tunesmith {

/// What kind of thing went wrong: enough to choose a reaction without reading the message.
enum class ErrorCode {
  invalid_argument,     ///< a shape, dtype, pointer, option or configuration that is not allowed
  unsupported,          ///< allowed in general, impossible on this device or architecture
  not_found,            ///< a file, operation, plan or cache entry that does not exist
  io,                   ///< a file that cannot be read, written or understood
  no_compiler,          ///< NVRTC (or the host compiler) was not found or cannot be opened
  no_device,            ///< no CUDA driver or no such GPU
  compile_failed,       ///< generated source that does not compile; log() and source_path() are set
  device_failed,        ///< the driver refused a call or a kernel faulted
  verification_failed,  ///< a kernel ran and its result differs from the float64 reference
  cancelled,            ///< stopped on request, nothing stored
  capturing,            ///< the call would have to compile, tune or synchronize during a stream capture
  out_of_memory,        ///< host or device memory is exhausted
  cache_failed,         ///< a cache command that cannot do its work (lookups never throw this)
};

/// The name of a code as the command line and the C API print it, e.g. "invalid_argument".
const char* name(ErrorCode code) noexcept;

/// Thrown by every throwing function of Tunesmith. what() is one line that names the argument, its value and what is
/// allowed. Copyable, no invariants beyond its fields; safe to pass between threads.
class Error : public std::runtime_error {
 public:
  /// Builds the message by streaming the parts one after the other.
  template <typename... Parts>
  explicit Error(ErrorCode code, const Parts&... parts) : std::runtime_error(concatenate(parts...)), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

  /// Compiler output in full; empty unless code() is compile_failed.
  const std::string& log() const noexcept { return log_; }
  /// The compiler options, space separated; empty unless code() is compile_failed.
  const std::string& options() const noexcept { return options_; }
  /// Where the offending source was written for inspection; may be empty when no folder was writable.
  const std::string& source_path() const noexcept { return source_path_; }

  Error&& with_compilation(std::string log, std::string options, std::string source_path) && {
    log_ = std::move(log);
    options_ = std::move(options);
    source_path_ = std::move(source_path);
    return std::move(*this);
  }

 private:
  template <typename... Parts>
  static std::string concatenate(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
  }

  ErrorCode code_;
  std::string log_, options_, source_path_;
};

}  // namespace tunesmith
