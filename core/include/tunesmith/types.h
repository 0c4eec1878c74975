#pragma once
// Types that every layer shares: element types, architectures, modes, launch dimensions.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "tunesmith/enum_names.h"

namespace tunesmith {

/// Element type of an array in device memory.
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  u8,    ///< boolean masks: 0 is false
  i32,   ///< lengths, class indices
  i64,   ///< class indices
  e4m3,  ///< 8-bit float: 4 bits of exponent, 3 of fraction; finite up to 448, no infinities (OCP E4M3)
  e5m2,  ///< 8-bit float: 5 bits of exponent, 2 of fraction; finite up to 57344 (OCP E5M2)
  i8,    ///< quantized values
  f64,   ///< for checks of gradients and for science: softmax, losses, norms and row programs compute in it
};

template <>
inline constexpr std::array<std::string_view, 10> enum_names<DType>{"f32", "f16",  "bf16", "u8", "i32",
                                                                    "i64", "e4m3", "e5m2", "i8", "f64"};

/// Returns the size of one element in bytes.
constexpr std::int64_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2:
    case DType::i8: return 1;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::i64:
    case DType::f64: return 8;
  }
  return 0;
}
/// Reports whether the type is f32, f16, bf16 or f64.
constexpr bool is_float(DType dtype) noexcept { return dtype <= DType::bf16 || dtype == DType::f64; }
/// Returns the name: "f32", "bf16", "i32".
std::string_view name(DType dtype) noexcept;
/// Parses the name of a type. Throws Error(invalid_argument) with `argument` as the value's name and the allowed types.
DType parse_dtype(std::string_view text, std::string_view argument = "dtype");

/// A GPU architecture to compile for: {9, 0, 'a'} is sm_90a. A suffix of 0 means none.
struct Arch {
  int major = 0;
  int minor = 0;
  char suffix = 0;

  /// Returns 90 for sm_90a, for comparisons.
  constexpr int number() const noexcept { return major * 10 + minor; }
  auto operator<=>(const Arch&) const = default;
};

/// Returns the name, e.g. "sm_90a".
std::string name(const Arch& arch);
/// Parses a name such as "sm_90a"; throws Error(invalid_argument) otherwise.
Arch parse_arch(std::string_view text);
/// Returns the architecture to compile for on a GPU of this compute capability: the architecture-specific target ("a") if
/// one exists (9.0, 10.x, 12.x), otherwise the plain one.
Arch native_arch(int major, int minor) noexcept;

/// When an engine may measure.
enum class Mode : std::uint8_t {
  tune,    ///< tune keys without a record on first use (default)
  replay,  ///< never measure: use the exact record, else one of older templates, else the nearest n_cols, else the default
           ///< configuration; may compile
  off,     ///< ignore tuning records and use the default configuration; may compile
  later,   ///< like replay, but remember keys without a record, for Engine::tune_pending()
};
std::string_view name(Mode mode) noexcept;
Mode parse_mode(std::string_view text);

/// Whether kernels over rows are compiled for the n_cols of a problem or for every n_cols of a bucket.
enum class Specialize : std::uint8_t {
  automatic,  ///< exact for an n_cols with tuning records, or one that is used often, else capacity; see EngineOptions
  exact,      ///< one kernel for each n_cols
  capacity,  ///< one kernel for a bucket of n_cols, in its default configuration: at most a few dozen kernels for all n_cols
};
/// Returns the name: "auto", "exact" or "capacity".
std::string_view name(Specialize specialize) noexcept;
Specialize parse_specialize(std::string_view text);

/// How much of the search space the tuner explores.
enum class Effort : std::uint8_t { quick, full };
std::string_view name(Effort effort) noexcept;
Effort parse_effort(std::string_view text);

/// Where a plan's configuration came from.
enum class Origin : std::uint8_t {
  pinned,      ///< set by the caller
  tuned,       ///< measured by this engine
  exact,       ///< a record of the same key
  older,       ///< a record of the same key, measured with older templates; mode tune measures again
  nearest,     ///< a record of the nearest n_cols
  by_default,  ///< the operation's default
  capacity,    ///< the default of a kernel for a bucket of n_cols
};
/// Returns the name: "pinned", "tuned", "exact", "older", "nearest", "default" or "capacity".
std::string_view name(Origin origin) noexcept;

/// Extents of a grid, a block (threads) or a cluster (blocks).
struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  constexpr std::uint64_t count() const noexcept { return std::uint64_t{x} * y * z; }
  auto operator<=>(const Dim3&) const = default;
};

/// A CUstream, which is the same pointer as a cudaStream_t. nullptr is the default stream. The host executor ignores it and
/// runs synchronously.
using Stream = void*;

}  // namespace tunesmith
