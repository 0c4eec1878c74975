#pragma once
// The arrays of a run: filled from files or at random, copied to the device and back, written to files.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/cli/input/npy.h"
#include "jit/device.h"
#include "templates/op.h"

namespace tunesmith::cli {

/// Files by array name.
using FileMap = std::map<std::string, std::filesystem::path>;

/// Reads "NAME=FILE" pairs; throws Error(invalid_argument) that names the flag.
FileMap parse_files(const std::vector<std::string>& texts, std::string_view flag);

/// Opened input files, by array name.
using InputFiles = std::map<std::string, std::unique_ptr<NpyReader>>;
/// Throws the errors of NpyReader.
InputFiles open_inputs(const FileMap& files);

/// The element type in files; bf16 is stored as 16-bit integers.
NpyType npy_type(DType dtype);
/// "3 x 4", "a single value".
std::string shape_text(const std::vector<std::int64_t>& shape);
/// Drops dimensions of length 1, which files may add or omit.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape);
/// Whether the operation has an option of this name.
bool has_option(const Op& op, std::string_view field);
/// Finds the array of this name and kind; throws Error(invalid_argument) that lists the arrays that `flag` may name.
const ArrayInfo& find_array(const Op& op, const std::vector<ArrayInfo>& arrays, const std::string& name,
                            bool ArrayInfo::*kind, const char* flag);

/// Whether a file holds a single row without the dimension of rows; results are then written likewise.
bool one_row_given(const std::vector<ArrayInfo>& arrays, const InputFiles& files);

/// Throws Error(invalid_argument) unless every file has its array's dtype and shape; dimensions of length 1 are ignored.
void check_files(const Op& op, const std::vector<ArrayInfo>& arrays, const InputFiles& files);
/// Throws Error(invalid_argument) unless every name is an output of the operation.
void check_outputs(const Op& op, const std::vector<ArrayInfo>& arrays, const FileMap& files);

/// Host memory for every array of a problem. Disabled optional arrays stay empty.
class HostArrays {
 public:
  /// Throws Error(out_of_memory) with the required bytes and the machine's memory.
  explicit HostArrays(const std::vector<ArrayInfo>& arrays);

  std::vector<HostArray>& arrays() noexcept { return arrays_; }
  const std::vector<HostArray>& arrays() const noexcept { return arrays_; }

  /// Fills arrays from their files, the others with seeded random numbers.
  void fill(const Op& op, const Problem& problem, std::uint64_t seed, InputFiles& files);
  /// Copies arrays that a run reads and writes to HostArray::before.
  void keep_inputs();

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<HostArray> arrays_;
};

/// Writes an array as a dense file, without gaps between rows. `one_row`: a matrix of one row becomes 1-D.
void write_array(const HostArray& array, bool one_row, const std::filesystem::path& path);

/// Device memory for every array. Outputs of an in-place problem share the memory of their inputs.
class DeviceArrays {
 public:
  DeviceArrays(Device& device, const std::vector<HostArray>& arrays);
  ~DeviceArrays();
  DeviceArrays(const DeviceArrays&) = delete;
  DeviceArrays& operator=(const DeviceArrays&) = delete;

  const std::vector<void*>& addresses() const noexcept { return addresses_; }
  /// Copies the outputs back to the host arrays.
  void fetch_outputs(std::vector<HostArray>& arrays) const;

 private:
  Device& device_;
  std::vector<void*> owned_, addresses_;
};

}  // namespace tunesmith::cli
