// C interface of the explored kernels for bench.py: pre (D, lse in log2 units, dQ zeroed), fused kernel, post (dQ to bf16).
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include "apart.cuh"
using namespace tunesmith;

template <int d>
__global__ void __launch_bounds__(256) pre(const uint4* __restrict__ o, const uint4* __restrict__ d_o, const float* __restrict__ lse,
                                          float* lse2, float* delta, float4* dq_acc, long rows) {
  constexpr int per = d / 8;  // threads of a row
  const long i = blockIdx.x * 256L + threadIdx.x, row = i / per;
  if (row >= rows) return;
  const uint4 a = o[i], b = d_o[i];
  float sum = 0;
  const unsigned x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
  for (int k = 0; k < 4; ++k)
    sum += __uint_as_float(x[k] << 16) * __uint_as_float(y[k] << 16) + __uint_as_float(x[k] & 0xffff0000u) * __uint_as_float(y[k] & 0xffff0000u);
  for (int k = 1; k < per; k *= 2) sum += __shfl_xor_sync(~0u, sum, k);
  if (i % per == 0) delta[row] = sum, lse2[row] = lse[row] * 1.44269504f;
  dq_acc[2 * (i - threadIdx.x) + threadIdx.x] = float4{0, 0, 0, 0};
  dq_acc[2 * (i - threadIdx.x) + 256 + threadIdx.x] = float4{0, 0, 0, 0};
}

// A warp takes 16 queries of 64 columns.
template <int d>
__global__ void __launch_bounds__(256) post(const float4* __restrict__ acc, uint4* dq, float scale, long pieces) {
  const long piece = blockIdx.x * 8L + threadIdx.x / 32;
  const int lane = threadIdx.x % 32, c = lane % 4;
  if (piece >= pieces) return;
  const long block = piece / 4;
  const int warp = piece % 4;
  uint2 v[2][4];
  for (int j = 0; j < 8; ++j) {
    const float4 x = acc[(piece * 8 + j) * 32 + lane];
    const unsigned low = pack<bf16>(x.x * scale, x.y * scale), high = pack<bf16>(x.z * scale, x.w * scale);
    if (j % 2) v[0][j / 2].y = low, v[1][j / 2].y = high; else v[0][j / 2].x = low, v[1][j / 2].x = high;
  }
  const long tile = block / (d / 64);
  const int column = block % (d / 64) * 64 + 16 * c;
  for (int h = 0; h < 2; ++h) {
    for (int mask = 1; mask < 4; mask *= 2) {
      for (int k = 0; k < 4; ++k) {
        if (k & mask) continue;
        const bool high = c & mask;
        const uint2 send = high ? v[h][k] : v[h][k | mask];
        uint2 got = {__shfl_xor_sync(~0u, send.x, mask), __shfl_xor_sync(~0u, send.y, mask)};
        if (high) v[h][k] = got; else v[h][k | mask] = got;
      }
    }
    const long row = tile * 64 + 16 * warp + lane / 4 + 8 * h;
    dq[(row * d + column) / 8] = {v[h][0].x, v[h][1].x, v[h][2].x, v[h][3].x};
    dq[(row * d + column) / 8 + 1] = {v[h][0].y, v[h][1].y, v[h][2].y, v[h][3].y};
  }
}

struct Call {
  const void *q, *k, *v, *o, *lse, *d_o;
  void *dq, *dk, *dv;
  float *lse2, *delta, *dq_acc;
  int bh, seq, heads_per_section, rotate;
  float scale;
  int parts;  // 1 pre, 2 fused, 4 post
};

static decltype(&cuTensorMapEncodeTiled) encode;
static TensorMap map_of(const void* base, int d, int rows, int seq, int bh) {
  TensorMap map;
  const cuuint64_t size[4] = {cuuint64_t(d), cuuint64_t(seq), cuuint64_t(bh), 1};
  const cuuint64_t stride[3] = {cuuint64_t(d) * 2, cuuint64_t(d) * 2 * seq, cuuint64_t(d) * 2 * seq * bh};
  const cuuint32_t box[4] = {64, cuuint32_t(rows), 1, 1}, one[4] = {1, 1, 1, 1};
  const CUresult r = encode(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<void*>(base), size, stride,
                            box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r != CUDA_SUCCESS) printf("encode %d\n", int(r));
  return map;
}

template <const Config& c, auto kernel>
static int launch(const Call& a, cudaStream_t stream) {
  using L = Layout<c>;
  if (!encode) {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult q;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &q);
    encode = reinterpret_cast<decltype(encode)>(f);
  }
  static bool set = false;
  if (!set) {
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes);
    if (e != cudaSuccess) return printf("smem %d: %s\n", L::bytes, cudaGetErrorString(e)), int(e);
    set = true;
  }
  const long rows = long(a.bh) * a.seq;
  if (a.parts & 1)
    pre<c.d><<<(rows * (c.d / 8) + 255) / 256, 256, 0, stream>>>((const uint4*)a.o, (const uint4*)a.d_o, (const float*)a.lse, a.lse2,
                                                               a.delta, (float4*)a.dq_acc, rows);
  if (a.parts & 2) {
    Params p;
    p.q = map_of(a.q, c.d, c.m, a.seq, a.bh);
    p.d_o = map_of(a.d_o, c.d, c.m, a.seq, a.bh);
    p.k = map_of(a.k, c.d, c.n, a.seq, a.bh);
    p.v = map_of(a.v, c.d, c.n, a.seq, a.bh);
    p.dk = map_of(a.dk, c.d, 64, a.seq, a.bh);
    p.dv = map_of(a.dv, c.d, 64, a.seq, a.bh);
    p.lse2 = a.lse2, p.delta = a.delta, p.dq_acc = a.dq_acc;
    p.seq = a.seq, p.bh = a.bh, p.heads_per_section = a.heads_per_section, p.rotate = a.rotate;
    p.scale = a.scale, p.scale_log2 = a.scale * 1.44269504f;
    kernel<<<a.bh * (a.seq / c.n), L::threads, L::bytes, stream>>>(p);
  }
  if (a.parts & 4) post<c.d><<<(rows / 16 * (c.d / 64) + 7) / 8, 256, 0, stream>>>((const float4*)a.dq_acc, (uint4*)a.dq, a.scale, rows / 16 * (c.d / 64));
  return int(cudaGetLastError());
}

#define VARIANT_OF(kernel, name, ...)                      \
  static constexpr Config name##_config = {__VA_ARGS__}; \
  extern "C" int name(const Call* a, void* stream) { return launch<name##_config, kernel<name##_config>>(*a, (cudaStream_t)stream); }
#define VARIANT(name, ...) VARIANT_OF(fused, name, __VA_ARGS__)
#define APART(name, ...) VARIANT_OF(fused_apart, name, __VA_ARGS__)
#include "variants.h"
