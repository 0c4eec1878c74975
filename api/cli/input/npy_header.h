#pragma once
// The header of a .npy file: NumPy's array format, versions 1.0 to 3.0 (numpy.lib.format).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::cli {

/// Element types that Tunesmith's arrays can have; all little-endian.
enum class NpyType : std::uint8_t { f4, f2, u2, u1, i4, i8, i1, f8 };

std::int64_t size_of(NpyType type) noexcept;
/// "<f4". NumPy's booleans ("|b1", a byte each) are read as u1.
std::string_view descr(NpyType type) noexcept;

struct NpyHeader {
  NpyType type = NpyType::f4;
  std::vector<std::int64_t> shape;  ///< row-major; empty: a single value (0-d)

  std::int64_t elements() const noexcept;
  std::int64_t data_bytes() const noexcept { return elements() * size_of(type); }
};

/// Reads the dictionary after the magic string, e.g. "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }". Throws
/// Error(io) without the file's name ("is Fortran-ordered; ..."), which the caller adds.
NpyHeader parse_npy_dictionary(std::string_view text);

/// Returns the magic string, version 1.0 and the dictionary, padded so that the data begins at a multiple of 64 bytes.
std::string npy_header_text(const NpyHeader& header);

}  // namespace tunesmith::cli
