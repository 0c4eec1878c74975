#pragma once
// Arrays in .npy files, made and read by tests of the command line.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "api/cli/input/npy_header.h"

namespace tunesmith::cli {

/// A whole file.
template <typename T>
std::string npy(NpyType type, const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
  return npy_header_text({type, shape}) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// What a file of float32 holds.
template <typename T>
std::vector<T> values_in(const std::string& file) {
  const std::size_t header = file.find('\n') + 1;
  std::vector<T> values((file.size() - header) / sizeof(T));
  std::memcpy(values.data(), file.data() + header, values.size() * sizeof(T));
  return values;
}
inline std::vector<float> floats_in(const std::string& file) { return values_in<float>(file); }

}  // namespace tunesmith::cli
