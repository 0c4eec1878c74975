#pragma once
// The subset of cuBLASLt's interface that Tunesmith uses, declared from its public documentation so that building needs no
// CUDA header. A test compares the values and layouts with <cublasLt.h> if that is installed.

#include <cstddef>
#include <cstdint>

#include "jit/cuda/driver_api.h"

namespace tunesmith::cublas_lt {

using Status = int;  ///< cublasStatus_t
using Handle = struct HandleTag*;
using MatmulDescription = struct MatmulDescriptionTag*;
using MatrixLayout = struct MatrixLayoutTag*;
using Preference = struct PreferenceTag*;

inline constexpr Status success = 0;
inline constexpr Status not_initialized = 1;
inline constexpr Status alloc_failed = 3;
inline constexpr Status arch_mismatch = 8;
inline constexpr Status not_supported = 15;

enum class DataType : int { f32 = 0, f16 = 2, bf16 = 14 };  ///< cudaDataType
enum class ComputeType : int { f32 = 68 };                  ///< cublasComputeType_t
enum class Operation : int { none = 0, transpose = 1 };     ///< cublasOperation_t
enum class PointerMode : int { host = 0, device = 1 };      ///< cublasLtPointerMode_t

/// cublasLtMatmulDescAttributes_t.
enum class DescriptionAttribute : int { pointer_mode = 2, transpose_a = 3, transpose_b = 4, epilogue = 7, bias = 8 };

/// cublasLtEpilogue_t. `bias` adds a vector in the dtype of the result, with an element for each row of the column-major
/// result.
enum class Epilogue : int { none = 1, bias = 4 };

/// cublasLtMatmulPreferenceAttributes_t.
enum class PreferenceAttribute : int {
  max_workspace_bytes = 1,
  reduction_scheme_mask = 3,
  min_alignment_a_bytes = 5,
  min_alignment_b_bytes = 6,
  min_alignment_c_bytes = 7,
  min_alignment_d_bytes = 8,
};

/// cublasLtReductionScheme_t: split-K partial sums are added in float32, in the workspace.
inline constexpr std::uint32_t reduction_in_compute_type = 2;

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

/// The functions that are called; version 12.0 and later have all of them.
struct Functions {
  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  const char* (*get_status_name)(Status);
  std::size_t (*get_version)();
  Status (*description_create)(MatmulDescription*, ComputeType, DataType scale);
  Status (*description_destroy)(MatmulDescription);
  Status (*description_set)(MatmulDescription, DescriptionAttribute, const void* value, std::size_t bytes);
  Status (*layout_create)(MatrixLayout*, DataType, std::uint64_t rows, std::uint64_t cols, std::int64_t leading_dimension);
  Status (*layout_destroy)(MatrixLayout);
  Status (*preference_create)(Preference*);
  Status (*preference_destroy)(Preference);
  Status (*preference_set)(Preference, PreferenceAttribute, const void* value, std::size_t bytes);
  Status (*get_heuristic)(Handle, MatmulDescription, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d,
                          Preference, int requested, HeuristicResult* results, int* returned);
  Status (*matmul)(Handle, MatmulDescription, const void* alpha, const void* a, MatrixLayout, const void* b, MatrixLayout,
                   const void* beta, const void* c, MatrixLayout, void* d, MatrixLayout, const Algorithm*, void* workspace,
                   std::size_t workspace_bytes, cuda::StreamHandle);
};

}  // namespace tunesmith::cublas_lt
