#pragma once
// Rows that pass through shared memory (row/schedules/staged.cuh). Internal to templates/.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/row/shape.h"

namespace tunesmith::row {

struct TypedConfig;

/// Returns the shape as kernels see it whose blocks have `rows` rows in shared memory: accesses to pairs if rows start at
/// them.
Shape staged_view(Shape shape, int rows);

/// An array of rows, and where its rows are in dynamic shared memory.
struct StagedArray {
  DType dtype;
  std::int64_t offset;  ///< bytes
};
struct StagedArrays {
  std::vector<StagedArray> inputs, outputs;
  std::int64_t bytes;
  /// Returns the bytes that arrays of `elements` elements reach: no more than `bytes`, if rows are narrower than their
  /// shape.
  std::int64_t bytes_of(std::int64_t elements) const;
};
/// Returns the arrays of a shape from staged_view(). Outputs replace inputs with elements of the same size.
StagedArrays staged_arrays(const Shape& shape);
inline std::int64_t staged_bytes(const Shape& shape) { return staged_arrays(shape).bytes; }

/// Returns why a configuration with access=staged cannot run this shape, before staged_view(); empty if it can.
std::string why_not_staged(const TypedConfig& config, const Shape& shape);

/// The parameters of a kernel that hold the addresses of its arrays of rows: "row.input[0]".
struct RowAddresses {
  std::vector<std::string> inputs, outputs;
  std::string near{};  ///< an array with one element for each row, read first of all: "targets"; and its type
  std::string near_type{};
};
/// Returns the addresses in RowParams; `params`: the type of the kernel's parameters.
RowAddresses addresses_of(const Shape& shape, const std::string& params);

struct StagedRowsOf {
  Shape shape{};  ///< from staged_view(); otherwise nothing is staged
  RowAddresses addresses{};
};
/// Returns the statements of an entry point that calls `call` with rows in shared memory.
std::string staged_kernel(const TypedConfig& config, const StagedRowsOf& rows, const std::string& params,
                          const std::string& call);

}  // namespace tunesmith::row
