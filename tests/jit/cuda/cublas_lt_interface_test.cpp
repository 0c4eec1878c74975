// Compares Tunesmith's declarations of cuBLASLt with the toolkit's header. If the header is installed, the build includes it
// before this file.

#include <gtest/gtest.h>

#include <cstddef>

#include "jit/cuda/cublas_lt_api.h"

#ifdef CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA

namespace tunesmith::cublas_lt {
namespace {

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SAME(success, CUBLAS_STATUS_SUCCESS);
SAME(not_initialized, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(alloc_failed, CUBLAS_STATUS_ALLOC_FAILED);
SAME(arch_mismatch, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(DataType::f32, CUDA_R_32F);
SAME(DataType::f16, CUDA_R_16F);
SAME(DataType::bf16, CUDA_R_16BF);
SAME(ComputeType::f32, CUBLAS_COMPUTE_32F);
SAME(Operation::none, CUBLAS_OP_N);
SAME(Operation::transpose, CUBLAS_OP_T);
SAME(PointerMode::host, CUBLASLT_POINTER_MODE_HOST);
SAME(PointerMode::device, CUBLASLT_POINTER_MODE_DEVICE);
SAME(DescriptionAttribute::pointer_mode, CUBLASLT_MATMUL_DESC_POINTER_MODE);
SAME(DescriptionAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(DescriptionAttribute::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(DescriptionAttribute::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(DescriptionAttribute::bias, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(Epilogue::none, CUBLASLT_EPILOGUE_DEFAULT);
SAME(Epilogue::bias, CUBLASLT_EPILOGUE_BIAS);
SAME(PreferenceAttribute::max_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(PreferenceAttribute::reduction_scheme_mask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(PreferenceAttribute::min_alignment_a_bytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(PreferenceAttribute::min_alignment_b_bytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(PreferenceAttribute::min_alignment_c_bytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(PreferenceAttribute::min_alignment_d_bytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(reduction_in_compute_type, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

SAME(sizeof(Status), sizeof(cublasStatus_t));
SAME(sizeof(Algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(HeuristicResult), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(HeuristicResult, algorithm), offsetof(cublasLtMatmulHeuristicResult_t, algo));
SAME(offsetof(HeuristicResult, workspace_bytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(HeuristicResult, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
SAME(offsetof(HeuristicResult, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

#undef SAME

// Checks that a function takes the same number of arguments as the toolkit's, with the same sizes.
template <typename Our, typename... Ours, typename Their, typename... Theirs>
constexpr bool agree(Our (*)(Ours...), Their (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs) && sizeof(Our) == sizeof(Their))
    return ((sizeof(Ours) == sizeof(Theirs)) && ...);
  return false;
}

#define AGREES(member, symbol) static_assert(agree(decltype(Functions::member){}, static_cast<decltype(&::symbol)>(nullptr)))

AGREES(create, cublasLtCreate);
AGREES(destroy, cublasLtDestroy);
AGREES(get_status_name, cublasLtGetStatusName);
AGREES(get_version, cublasLtGetVersion);
AGREES(description_create, cublasLtMatmulDescCreate);
AGREES(description_destroy, cublasLtMatmulDescDestroy);
AGREES(description_set, cublasLtMatmulDescSetAttribute);
AGREES(layout_create, cublasLtMatrixLayoutCreate);
AGREES(layout_destroy, cublasLtMatrixLayoutDestroy);
AGREES(preference_create, cublasLtMatmulPreferenceCreate);
AGREES(preference_destroy, cublasLtMatmulPreferenceDestroy);
AGREES(preference_set, cublasLtMatmulPreferenceSetAttribute);
AGREES(get_heuristic, cublasLtMatmulAlgoGetHeuristic);
AGREES(matmul, cublasLtMatmul);

#undef AGREES

TEST(CublasLtInterface, MatchesTheToolkitsHeader) { SUCCEED() << "checked when this file was compiled"; }

}  // namespace
}  // namespace tunesmith::cublas_lt

#else

TEST(CublasLtInterface, MatchesTheToolkitsHeader) { GTEST_SKIP() << "cublasLt.h was not installed when this was built"; }

#endif
