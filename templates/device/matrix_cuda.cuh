// Tensor cores for CUDA: mma.sync, ldmatrix, stmatrix and predicated cp.async. device/matrix.cuh describes the layouts.
// jit/host/tunesmith_matrix_host.h has the same names for the host executor; change both together.
#pragma once

#include "device/platform_cuda.cuh"

namespace tunesmith {

/// d += a * b, 16x16 by 16x8 elements of f16 (sm_75 and later) or bf16 (sm_80 and later), accumulated in float.
template <typename Element>
__device__ __forceinline__ void multiply_accumulate_16x8x16(float (&)[4], const uint32 (&)[4], const uint32 (&)[2]) {
  static_assert(sizeof(Element) == 0, "tensor cores multiply f16 and, on sm_80 and later, bf16");
}
#if TUNESMITH_SM >= 800
#define TUNESMITH_MULTIPLY_ACCUMULATE(type)                                           \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
template <>
__device__ __forceinline__ void multiply_accumulate_16x8x16<f16>(float (&d)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {
  TUNESMITH_MULTIPLY_ACCUMULATE("f16");
}
template <>
__device__ __forceinline__ void multiply_accumulate_16x8x16<bf16>(float (&d)[4], const uint32 (&a)[4],
                                                                  const uint32 (&b)[2]) {
  TUNESMITH_MULTIPLY_ACCUMULATE("bf16");
}
#undef TUNESMITH_MULTIPLY_ACCUMULATE
#else
/// Turing's instruction has half the depth: one for each half of k.
template <>
__device__ __forceinline__ void multiply_accumulate_16x8x16<f16>(float (&d)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
}
#endif

/// Loads four 8x8 matrices of 16-bit elements from shared memory; every lane passes the address of a row, 16-byte aligned.
/// `offset`: bytes added to shared_row without 64-bit arithmetic; free if constant.
__device__ __forceinline__ void load_matrix_x4(uint32 (&r)[4], const void* shared_row, int offset = 0) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row) + offset)
               : "memory");
}
/// Loads each matrix transposed.
__device__ __forceinline__ void load_matrix_x4_transposed(uint32 (&r)[4], const void* shared_row, int offset = 0) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row) + offset)
               : "memory");
}
#if TUNESMITH_SM >= 900
/// Stores the matrices that load_matrix_x4 would load as r.
__device__ __forceinline__ void store_matrix_x4(void* shared_row, const uint32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(shared_row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
#endif

#if TUNESMITH_SM >= 800
/// Copies 16 bytes from global memory to `shared` + `offset`, both 16-byte aligned, bypassing L1 and registers; without
/// `there` writes zeros and reads nothing. Complete after async_copy_wait, which every thread must call.
__device__ __forceinline__ void async_copy_16(void* shared, int offset, const void* global, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared) + offset), "l"(global),
               "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void async_copy_16(void* shared, const void* global, bool there) {
  async_copy_16(shared, 0, global, there);
}
#endif

/// Returns log2(x) within 2^-22, or a relative 2^-22 outside [1/2, 2]; -infinity for 0 and denormals, NaN below 0.
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float absolute(float x) { return fabsf(x); }

}  // namespace tunesmith
