#pragma once
// The one exception type of the library.

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace tunesmith {

/// The kind of an error, so that a program can react without parsing the message.
enum class ErrorCode {
  invalid_argument,     ///< a shape, dtype, pointer, option or configuration is not allowed
  unsupported,          ///< valid, but not possible on this device or architecture
  not_found,            ///< a file, operation, plan or cache entry that does not exist
  io,                   ///< a file that cannot be read, written or parsed
  no_compiler,          ///< NVRTC (or the host compiler) was not found or cannot be opened
  no_device,            ///< no CUDA driver or no such GPU
  compile_failed,       ///< generated source that does not compile; log() and source_path() are set
  device_failed,        ///< a driver call failed or a kernel faulted
  verification_failed,  ///< a kernel ran and its result differs from the float64 reference
  cancelled,            ///< stopped on request, nothing stored
  capturing,            ///< the call needs to compile, tune or synchronize, but the stream is being captured
  out_of_memory,        ///< host or device memory is exhausted
  cache_failed,         ///< a cache command failed (lookups never throw this)
};

/// Returns the name of a code as the command line and the C API print it, e.g. "invalid_argument".
const char* name(ErrorCode code) noexcept;

/// The exception of every function of Tunesmith that throws. what() is one line with the argument, its value and the allowed
/// values; an error in a row program adds the line of the program and a caret below the place. Safe to copy and to pass
/// between threads.
class Error : public std::runtime_error {
 public:
  /// Builds the message by streaming the parts in order.
  template <typename... Parts>
  explicit Error(ErrorCode code, const Parts&... parts) : std::runtime_error(concatenate(parts...)), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

  /// The full compiler output; empty unless code() is compile_failed.
  const std::string& log() const noexcept { return log_; }
  /// The compiler options, space separated; empty unless code() is compile_failed.
  const std::string& options() const noexcept { return options_; }
  /// Path of the file that holds the failing source; empty if no folder was writable.
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
